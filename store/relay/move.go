package relay

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Of the mover: how often it looks for topics that other processes use, and how it
// waits when the log does not take anything.
const (
	lookForTopics = 5 * time.Second
	firstBackoff  = 100 * time.Millisecond
	mostBackoff   = 10 * time.Second
)

// moveLoop brings over what is due.
func (s *Store) moveLoop() {
	woken := s.listen()
	var looked time.Time
	for failures := 0; s.ctx.Err() == nil; {
		if time.Since(looked) > lookForTopics && s.look() == nil {
			looked = time.Now()
		}
		n, err := s.move()
		switch {
		case err != nil && s.ctx.Err() == nil:
			s.cfg.Logger.Warn("cannot bring messages over from the side store", "error", err)
			failures++
			s.wait(min(firstBackoff<<min(failures, 10), mostBackoff), nil)
			continue
		case n == 0:
			s.wait(s.cfg.Poll, woken)
		}
		failures = 0
	}
}

func (s *Store) wait(d time.Duration, woken <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.kick:
	case <-woken:
	case <-s.ctx.Done():
	}
}

// listen wakes the mover when something may be due; nil if the side store cannot.
func (s *Store) listen() <-chan struct{} {
	w, ok := store.As[store.Waker](s.side)
	if !ok || s.look() != nil {
		return nil
	}
	ch, err := w.Listen(s.ctx, s.names()...)
	if err != nil {
		return nil
	}
	return ch
}

// look finds the topics that are ours.
func (s *Store) look() error {
	stats, err := s.topics.Stats(s.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range stats {
		if strings.HasPrefix(stats[i].Name, s.cfg.Prefix) {
			s.known[stats[i].Name] = true
		}
	}
	return err
}

func (s *Store) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for name := range s.known {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// move brings over what is due now, a batch at most, and returns how many it was.
func (s *Store) move() (int, error) {
	names := s.names()
	if len(names) == 0 {
		return 0, nil
	}
	var wants []store.Want
	for _, name := range names {
		wants = append(wants, store.Want{Topic: name, Limit: max(1, s.cfg.Batch/len(names)), MaxBytes: store.MaxBatchBytes / 2 / len(names)})
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Lease*2/3)
	defer cancel()
	ds, err := s.side.Claim(ctx, wants, store.Lease{For: s.cfg.Lease, Owner: s.cfg.Owner})
	if err != nil || len(ds) == 0 {
		return 0, err
	}
	msgs := make([]pawl.Message, len(ds))
	for i := range ds {
		m := ds[i].Message
		m.Topic = strings.TrimPrefix(m.Topic, s.cfg.Prefix)
		m.Unique, m.Delay = pawl.Unique{}, 0
		msgs[i] = m
	}
	receipts, failed := s.log.Append(ctx, store.NewBatch(msgs...))
	items := make([]store.Settlement, len(ds))
	for i := range ds {
		items[i] = verdict(&ds[i], receipts, i, failed)
	}
	// Also when the process stops: what was brought over should not come again.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Lease/3)
	defer cancel()
	_, err = s.side.Settle(end, store.NewBatch(items...))
	return len(ds), errors.Join(failed, err)
}

// verdict is what becomes of a message of the side store after it was offered to
// the log.
func verdict(d *pawl.Delivery, receipts []store.Receipt, i int, failed error) store.Settlement {
	st := store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack}
	err := failed
	if receipts != nil {
		err = receipts[i].Err
	}
	if err == nil {
		return st
	}
	st.Failure = store.Failure{Kind: "Relay", Error: err.Error()}
	if failed == nil { // the log refused this one, and took the others
		st.Verdict = store.Dead
		return st
	}
	st.Verdict = store.Release
	return st
}

package relay

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Of the mover: how often it looks for topics that other processes use, how it waits
// when the side store gives nothing, and how long a topic rests at most of which the
// log took nothing.
const (
	lookForTopics = 5 * time.Second
	firstBackoff  = 100 * time.Millisecond
	mostBackoff   = 10 * time.Second
	mostRest      = 2 * time.Second
)

// way is the state of moving one topic of the side store: one batch at a time, and
// none for a while after the log accepted nothing.
type way struct {
	busy     bool
	failures int // in a row
	until    time.Time
	told     time.Time // when its failure was last written to the log of this process
}

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
			s.wait(s.idle(), woken)
		}
		failures = 0
	}
}

// idle is how long nothing can be done, unless somebody says otherwise.
func (s *Store) idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.cfg.Poll
	for _, w := range s.known {
		if rest := time.Until(w.until); rest > 0 {
			d = min(d, rest)
		}
	}
	return d
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
			s.know(stats[i].Name)
		}
	}
	return err
}

// know registers a topic. The caller holds mu.
func (s *Store) know(name string) {
	if s.known[name] == nil {
		s.known[name] = &way{}
	}
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

// wants is what can be claimed now. The share of a topic is the same however many
// others are busy: so all that is under way together is a batch at most.
func (s *Store) wants() []store.Want {
	names := s.names()
	s.mu.Lock()
	defer s.mu.Unlock()
	var wants []store.Want
	for _, name := range names {
		if w := s.known[name]; !w.busy && time.Until(w.until) <= 0 {
			wants = append(wants, store.Want{Topic: name, Limit: max(1, s.cfg.Batch/len(names)),
				MaxBytes: store.MaxBatchBytes / 2 / len(names)})
		}
	}
	return wants
}

// move claims what is due now, a batch at most, and returns how many messages it was.
// Each topic goes its own way from there: one that the log does not take, or that it
// takes long to refuse, holds up no other.
func (s *Store) move() (int, error) {
	wants := s.wants()
	if len(wants) == 0 {
		return 0, nil
	}
	sent := time.Now()
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Lease*2/3)
	defer cancel()
	ds, err := s.side.Claim(ctx, wants, store.Lease{For: s.cfg.Lease, Owner: s.cfg.Owner, Suspects: store.AllSuspects})
	if err != nil {
		return 0, err
	}
	of := map[string][]pawl.Delivery{}
	for i := range ds {
		of[ds[i].Topic] = append(of[ds[i].Topic], ds[i])
	}
	for name, ds := range of {
		s.mu.Lock()
		s.know(name)
		w := s.known[name]
		w.busy = true
		s.mu.Unlock()
		s.wg.Go(func() {
			p := moveBatch{Store: s, ds: ds, sent: sent}
			stored, err := p.carry()
			s.carried(name, w, stored, err)
		})
	}
	return len(ds), nil
}

// carried lets a topic continue, at once or after a rest.
func (s *Store) carried(name string, w *way, stored bool, err error) {
	s.mu.Lock()
	w.busy = false
	if err == nil || stored {
		w.failures, w.until = 0, time.Time{}
	} else {
		w.failures++
		w.until = time.Now().Add(min(firstBackoff<<min(w.failures, 10), mostRest))
	}
	tell := err != nil && s.ctx.Err() == nil && time.Since(w.told) >= mostBackoff
	if tell {
		w.told = time.Now()
	}
	s.mu.Unlock()
	if tell {
		s.cfg.Logger.Warn("cannot bring messages over from the side store", "topic",
			strings.TrimPrefix(name, s.cfg.Prefix), "error", err)
	}
	s.wakeMover()
}

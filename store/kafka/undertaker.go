package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
)

// undertaker has dead letters written, and repeats it until they are. Every letter is
// for itself: one that cannot be written holds up no other. One that is on its way is
// not written again, however long it takes: the client would store both.
type undertaker struct {
	s     *Store
	begun map[*death]time.Time // on their way to the brokers, since when
	left  []*death             // not written, to be tried again
	next  time.Time            // when the first of them is, not before
}

// burial is a try to write a dead letter.
type burial struct {
	death  *death
	record *kgo.Record // nil: it did not come to that
	err    error
}

// end hands in a burial. It does not wait: the client calls it.
func (b *burier) end(done burial) {
	b.mu.Lock()
	b.over = append(b.over, done)
	b.mu.Unlock()
	signal(b.ended)
}

// buryLoop is the work of the undertaker.
func (s *Store) buryLoop() {
	u := &undertaker{s: s, begun: map[*death]time.Time{}}
	overdue := s.cfg.Produce.Timeout + time.Second
	late := time.NewTicker(overdue)
	defer late.Stop()
	for {
		retry := time.NewTimer(u.pause())
		select {
		case <-s.engine.dying:
		case <-s.burier.ended:
		case <-retry.C:
		case <-late.C:
			u.complain(time.Now().Add(-overdue))
		case <-s.ctx.Done():
			retry.Stop()
			return
		}
		retry.Stop()
		u.note()
		u.begin()
	}
}

// pause is how long there is nothing to do, if nothing happens.
func (u *undertaker) pause() time.Duration {
	if len(u.left) == 0 {
		return 1<<62 - 1
	}
	return time.Until(u.next)
}

// note takes note of burials that are over.
func (u *undertaker) note() {
	b := &u.s.burier
	b.mu.Lock()
	over := b.over
	b.over = nil
	b.mu.Unlock()
	var records []*kgo.Record
	var errs []error
	for _, done := range over {
		d := done.death
		delete(u.begun, d)
		if done.err == nil {
			u.s.wrote(d)
			continue
		}
		u.s.letterFailed(d, done.err)
		u.keep(d)
		if done.record != nil {
			records, errs = append(records, done.record), append(errs, done.err)
		}
	}
	u.s.forget(records, errs)
}

// wrote ends a death: its letter is written.
func (s *Store) wrote(d *death) {
	s.burier.tally.note(d.lane.of.topic.Name, string(d.kind), d.flight.rec.Key, time.Now())
	s.engine.buried(d)
	s.skipped(d)
}

// keep has a death tried again later.
func (u *undertaker) keep(d *death) {
	d.turn = time.Now().Add(letterBackoff(d.tries))
	d.tries++
	if len(u.left) == 0 || d.turn.Before(u.next) {
		u.next = d.turn
	}
	u.left = append(u.left, d)
}

// letterBackoff is how long after a failure dead letters are tried again.
func letterBackoff(try int) time.Duration {
	wait := min(100*time.Millisecond<<min(try, 10), 10*time.Second)
	return wait/2 + rand.N(wait/2)
}

// begin has the letters written of those who died just now, and of those whose turn
// it is again.
func (u *undertaker) begin() {
	due := map[string][]*death{} // by topic
	for _, d := range append(u.ready(), u.s.engine.takeDeaths()...) {
		if !u.s.engine.vain(d) {
			u.begun[d] = time.Now()
			due[d.flight.rec.Topic] = append(due[d.flight.rec.Topic], d)
		}
	}
	for topic, deaths := range due { // side by side: who makes a topic may have to wait
		u.s.wg.Go(func() { u.s.bury(topic, deaths) })
	}
}

// ready takes those of the left whose turn it is, and with them those whose turn is
// soon: that many may not come one by one.
func (u *undertaker) ready() (due []*death) {
	if len(u.left) == 0 || time.Now().Before(u.next) {
		return nil
	}
	soon := time.Now().Add(metadataMin)
	u.left = slices.DeleteFunc(u.left, func(d *death) bool {
		if d.turn.Before(soon) {
			due = append(due, d)
			return true
		}
		return false
	})
	for i, d := range u.left {
		if i == 0 || d.turn.Before(u.next) {
			u.next = d.turn
		}
	}
	return due
}

// complain tells of letters that are on their way since then, or for longer.
func (u *undertaker) complain(then time.Time) {
	for d, since := range u.begun {
		if !since.After(then) {
			err := fmt.Errorf("%w: %w", store.ErrUnknown, kgo.ErrRecordTimeout)
			u.s.health.letterFailed(d.flight.rec.Topic, u.s.explain("write a dead letter", err))
		}
	}
}

// bury sends the letters of deaths of a topic on their way.
func (s *Store) bury(topic string, deaths []*death) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Produce.Timeout)
	name, err := s.topics.ensureDead(ctx, topic)
	cancel()
	for _, d := range deaths {
		if err != nil {
			s.burier.end(burial{death: d, err: err})
			continue
		}
		began := time.Now()
		s.producers.of(name).Produce(s.ctx, s.deadRecord(name, d), func(r *kgo.Record, err error) {
			s.made.note(began, err)
			s.burier.end(burial{death: d, record: r, err: err})
		})
	}
}

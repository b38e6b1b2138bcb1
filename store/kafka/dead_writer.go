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

// deadWriter writes dead letters, and retries until they are written. Letters are
// independent: one that cannot be written holds up no other. One that is on its way is
// not written again, however long it takes: the client would store both.
type deadWriter struct {
	s     *Store
	begun map[*death]time.Time // on their way to the brokers, since when
	left  []*death             // not written, to be tried again
	next  time.Time            // when the first of them is, not before
}

// deadWrite is a try to write a dead letter.
type deadWrite struct {
	death  *death
	record *kgo.Record // nil: it was not sent
	err    error
}

// end hands in a try that has ended. It does not block, because the client calls it.
func (d *deadWrites) end(done deadWrite) {
	d.mu.Lock()
	d.over = append(d.over, done)
	d.mu.Unlock()
	signal(d.ended)
}

// deadWriteLoop is the work of the writer of dead letters.
func (s *Store) deadWriteLoop() {
	w := &deadWriter{s: s, begun: map[*death]time.Time{}}
	overdue := s.cfg.Produce.Timeout + time.Second
	late := time.NewTicker(overdue)
	defer late.Stop()
	for {
		retry := time.NewTimer(w.pause())
		select {
		case <-s.engine.dying:
		case <-s.deadWrites.ended:
		case <-retry.C:
		case <-late.C:
			w.complain(time.Now().Add(-overdue))
		case <-s.ctx.Done():
			retry.Stop()
			return
		}
		retry.Stop()
		w.note()
		w.begin()
	}
}

// pause is how long there is nothing to do, if nothing happens.
func (w *deadWriter) pause() time.Duration {
	if len(w.left) == 0 {
		return 1<<62 - 1
	}
	return time.Until(w.next)
}

// note takes note of tries that are over.
func (w *deadWriter) note() {
	b := &w.s.deadWrites
	b.mu.Lock()
	over := b.over
	b.over = nil
	b.mu.Unlock()
	var records []*kgo.Record
	var errs []error
	for _, done := range over {
		d := done.death
		delete(w.begun, d)
		if done.err == nil {
			w.s.wrote(d)
			continue
		}
		w.s.letterFailed(d, done.err)
		w.keep(d)
		if done.record != nil {
			records, errs = append(records, done.record), append(errs, done.err)
		}
	}
	w.s.forget(records, errs)
}

// wrote ends a death: its letter is written.
func (s *Store) wrote(d *death) {
	s.deadWrites.tally.note(d.lane.of.topic.Name, string(d.kind), d.flight.rec.Key, time.Now())
	s.engine.letterWritten(d)
	s.skipped(d)
}

// keep has a death tried again later.
func (w *deadWriter) keep(d *death) {
	d.turn = time.Now().Add(letterBackoff(d.tries))
	d.tries++
	if len(w.left) == 0 || d.turn.Before(w.next) {
		w.next = d.turn
	}
	w.left = append(w.left, d)
}

// letterBackoff is how long after a failure dead letters are tried again.
func letterBackoff(try int) time.Duration {
	wait := store.Doubled(100*time.Millisecond, 10*time.Second, try)
	return wait/2 + rand.N(wait/2)
}

// begin writes the letters of messages that died just now, and of those that are due
// for a retry.
func (w *deadWriter) begin() {
	due := map[string][]*death{} // by topic
	for _, d := range append(w.ready(), w.s.engine.takeDeaths()...) {
		if !w.s.engine.vain(d) {
			w.begun[d] = time.Now()
			due[d.flight.rec.Topic] = append(due[d.flight.rec.Topic], d)
		}
	}
	for topic, deaths := range due { // concurrently: creating a topic may take a while
		w.s.wg.Go(func() { w.s.writeDead(topic, deaths) })
	}
}

// ready takes the remaining letters that are due, together with those due soon, so that
// many are not written one by one.
func (w *deadWriter) ready() (due []*death) {
	if len(w.left) == 0 || time.Now().Before(w.next) {
		return nil
	}
	soon := time.Now().Add(metadataMin)
	w.left = slices.DeleteFunc(w.left, func(d *death) bool {
		if d.turn.Before(soon) {
			due = append(due, d)
			return true
		}
		return false
	})
	for i, d := range w.left {
		if i == 0 || d.turn.Before(w.next) {
			w.next = d.turn
		}
	}
	return due
}

// complain logs letters that have been in flight for too long.
func (w *deadWriter) complain(then time.Time) {
	for d, since := range w.begun {
		if !since.After(then) {
			err := fmt.Errorf("%w: %w", store.ErrUnknown, kgo.ErrRecordTimeout)
			w.s.health.letterFailed(d.flight.rec.Topic, w.s.explain("write a dead letter", err))
		}
	}
}

// writeDead sends the letters of deaths of a topic on their way.
func (s *Store) writeDead(topic string, deaths []*death) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Produce.Timeout)
	name, err := s.topics.ensureDead(ctx, topic)
	cancel()
	for _, d := range deaths {
		if err != nil {
			s.deadWrites.end(deadWrite{death: d, err: err})
			continue
		}
		began := time.Now()
		s.producers.of(name).Produce(s.ctx, s.deadRecord(name, d), func(r *kgo.Record, err error) {
			s.made.note(began, err)
			s.deadWrites.end(deadWrite{death: d, record: r, err: err})
		})
	}
}

package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
)

// deadWrites are the tries to write dead letters. A message whose dead letter cannot be
// written is not finished: its lane stands still, and nothing is committed past it.
// Letters are independent: one that cannot be written holds up no other. One that is on
// its way is not written again, however long it takes: the client would store both.
type deadWrites struct {
	failed atomic.Uint64 // tries
	tally  deathTally

	mu    sync.Mutex
	begun map[*death]time.Time // on their way to the brokers, since when
}

// deadWriteLoop writes the letters of messages that died, and complains of those that
// have been in flight for too long.
func (s *letters) deadWriteLoop() {
	overdue := s.cfg.Produce.Timeout + time.Second
	late := time.NewTicker(overdue)
	defer late.Stop()
	for {
		select {
		case <-s.engine.dying:
			due := map[string][]*death{} // by topic
			for _, d := range s.engine.takeDeaths() {
				due[d.flight.rec.Topic] = append(due[d.flight.rec.Topic], d)
			}
			for topic, deaths := range due { // concurrently: creating a topic may take a while
				s.wg.Go(func() { s.writeDead(topic, deaths) })
			}
		case <-late.C:
			s.complain(time.Now().Add(-overdue))
		case <-s.ctx.Done():
			return
		}
	}
}

// complain reports letters that have been in flight since then.
func (s *letters) complain(then time.Time) {
	s.deadWrites.mu.Lock()
	defer s.deadWrites.mu.Unlock()
	for d, since := range s.deadWrites.begun {
		if !since.After(then) {
			err := fmt.Errorf("%w: %w", store.ErrUnknown, kgo.ErrRecordTimeout)
			s.health.note(d.flight.rec.Topic, "%v", s.explain("write a dead letter", err))
		}
	}
}

// writeDead sends the letters of deaths of a topic on their way.
func (s *letters) writeDead(topic string, deaths []*death) {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.Produce.Timeout)
	name, err := s.topics.ensureDead(ctx, topic)
	cancel()
	if err != nil {
		s.letterFailed(nil, err, deaths...)
		return
	}
	for _, d := range deaths {
		began := time.Now()
		s.deadWrites.mu.Lock()
		s.deadWrites.begun[d] = began
		s.deadWrites.mu.Unlock()
		letter := s.deadRecord(name, d)
		s.producers.of(name, weight(letter)).Produce(s.ctx, letter, func(r *kgo.Record, err error) {
			s.deadWrites.mu.Lock()
			delete(s.deadWrites.begun, d)
			s.deadWrites.mu.Unlock()
			s.made.note(began, err)
			if err != nil {
				s.letterFailed(r, err, d)
				return
			}
			s.deadWrites.tally.note(d.flight.lane.of.topic.Name, string(d.kind), d.flight.rec.Key, time.Now())
			s.engine.letterWritten(d)
			s.side.skipped(d)
		})
	}
}

// letterFailed has letters of a topic written again after a while. The record is the one
// that the brokers refused, nil if none was sent. The client may call it: it does not
// block.
func (s *letters) letterFailed(refused *kgo.Record, err error, deaths ...*death) {
	if s.ctx.Err() != nil {
		return
	}
	s.deadWrites.failed.Add(uint64(len(deaths)))
	s.health.note(deaths[0].flight.rec.Topic, "%v", s.explain("write a dead letter", err))
	try := deaths[0].tries
	for _, d := range deaths {
		try = min(try, d.tries)
		d.tries++
	}
	time.AfterFunc(letterBackoff(try), func() {
		if refused != nil {
			s.forget(refused.Topic, err)
		}
		s.engine.dieAgain(deaths)
	})
}

// letterBackoff is how long after a failure dead letters are tried again.
func letterBackoff(try int) time.Duration {
	wait := store.Doubled(100*time.Millisecond, 10*time.Second, try)
	return wait/2 + rand.N(wait/2)
}

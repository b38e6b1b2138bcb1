package kafka

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// CaughtUp waits until everything in topics, as of now, was fetched by this
// process, which must be the only member of its group.
func (s *Store) CaughtUp(ctx context.Context, topics ...string) error {
	for _, topic := range topics {
		ends, err := s.admin.ListEndOffsets(ctx, s.wire(topic))
		if err != nil {
			return err
		}
		for p, end := range ends[s.wire(topic)] {
			for end.Err == nil && end.Offset > 0 && !s.has(topic, p, end.Offset) {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				time.Sleep(200 * time.Microsecond)
			}
		}
	}
	return nil
}

func (s *Store) has(topic string, partition int32, end int64) bool {
	s.group.feedMu.Lock()
	defer s.group.feedMu.Unlock()
	a := s.engine.assignment(topic, partition)
	if a == nil {
		return false
	}
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return a.gate.Tail() >= end || len(a.overflow) > 0
}

// ForgetTopic is what becomes of a topic that brokers say they do not know.
func (s *Store) ForgetTopic(topic string) {
	s.forget(s.wire(topic), kerr.UnknownTopicOrPartition)
}

// ForgetExpired forgets the letters that retention has taken, which otherwise happens
// once a minute.
func (s *Store) ForgetExpired(ctx context.Context) error { return s.dead.expire(ctx) }

// ChangeDead does what build says as a change of dead letters.
func (s *Store) ChangeDead(ctx context.Context, build func() ([]*kgo.Record, error)) error {
	return s.registrar.change(ctx, "test", build)
}

// RenewLock sets how often the lock of dead letters is renewed. Nobody may have it.
func (s *Store) RenewLock(every time.Duration) { s.registrar.renew = every }

// KeyLock is where that lock is.
const KeyLock = keyLock

// Paused is how many partitions are not fetched from because they have no room.
func (s *Store) Paused() (n int) {
	s.group.feedMu.Lock()
	defer s.group.feedMu.Unlock()
	for _, a := range s.engine.assignments() {
		if a.paused {
			n++
		}
	}
	return n
}

// ShortenState shortens the log of the state whenever it has grown by so many bytes, and
// at once.
func (s *Store) ShortenState(room int) {
	s.state.tail.mu.Lock()
	defer s.state.tail.mu.Unlock()
	s.state.room, s.state.delay = room, 1
}

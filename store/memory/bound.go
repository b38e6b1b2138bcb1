package memory

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/bound"
)

// look is how the meter looks at the topics. s.mu is locked.
func (s *core) look(now time.Time) bound.Look {
	return bound.Look{
		Now: now,
		Most: func(name string) int64 {
			if t := s.topics[name]; t != nil {
				return t.MaxWaiting
			}
			return 0
		},
		Read: func(name string) (bound.Reading, error) {
			a := &s.topics[name].totals
			left := a.Acked + a.Cancelled + a.Purged + a.Dead
			return bound.Reading{Waiting: a.Appended - left - s.leased(name), Left: left}, nil
		},
	}
}

// leased counts the messages of a topic that somebody holds.
func (s *core) leased(name string) (n int64) {
	for _, l := range s.lanes {
		if l.topic.Name == name && l.lease != nil {
			n += int64(l.lease.run)
		}
	}
	return n
}

// Full implements [store.Topics].
func (s *registry) Full(ctx context.Context, topics ...string) ([]*store.TopicFullError, error) {
	now, err := s.enter(ctx, "full")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.meter.Full(s.look(now), topics...)
}

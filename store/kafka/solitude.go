package kafka

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// waits returns the first lane of a topic whose message waits for solitude and may begin
// it.
func (e *engine) waits(name string, now int64, lease time.Duration) (first *lane) {
	t := e.topics[name]
	if t == nil || t.paused(now) || t.died.Until(lease).After(time.Unix(0, now)) {
		return nil
	}
	for _, a := range t.partitions {
		if a.state != live || a.putOff(now, lease) {
			continue
		}
		for offset := range a.tries {
			f := a.find(offset)
			if f == nil || !f.solitary() || f.lane.head != f || f.lane.state != ready || e.mustDie(f) {
				continue
			}
			if first == nil || f.seq < first.head.seq {
				first = f.lane
			}
		}
	}
	return first
}

// hasSkip tells whether a message has to die instead.
func (e *engine) mustDie(f *flight) bool {
	l := f.lane
	parked := l.of.topic.Park && l.keyed && l.of.topic.deadByKey[l.key] > 0 && f.trouble.replays == 0
	return parked || f.trouble.lonely >= store.LonelyRescues
}

// Solitary implements [store.Solitude]. It tells of what this process has fetched.
func (s *Store) Solitary(ctx context.Context, lease time.Duration, topics ...string) (string, error) {
	if err := s.usable(ctx, "solitary"); err != nil {
		return "", err
	}
	now, err := s.engine.enter("solitary")
	if err != nil {
		return "", err
	}
	defer s.engine.mu.Unlock()
	for _, topic := range topics {
		if s.engine.waits(topic, now, lease) != nil {
			return topic, nil
		}
	}
	return "", nil
}

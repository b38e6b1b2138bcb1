package memory

import (
	"context"

	"github.com/pawl-dev/pawl/store"
)

// ReplayKeeping implements [store.DeadLetters].
func (s *inspector) ReplayKeeping(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	return s.replayAll(ctx, topic, true, ids)
}

// Resolve implements [store.DeadLetters].
func (s *inspector) Resolve(ctx context.Context, by, note string, ids ...string) (map[string]error, error) {
	return s.eachDead(ctx, "resolve", ids, func(m *message) error {
		m.Resolved = &store.Resolution{At: s.now(), By: store.Text(by), Note: store.Text(note)}
		return nil
	})
}

// Reopen implements [store.DeadLetters].
func (s *inspector) Reopen(ctx context.Context, ids ...string) (map[string]error, error) {
	return s.eachDead(ctx, "reopen", ids, func(m *message) error {
		m.Resolved = nil
		return nil
	})
}

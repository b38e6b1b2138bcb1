package memory

import (
	"context"

	"github.com/pawl-dev/pawl/store"
)

// ReplayKeeping implements [store.Triage].
func (s *Store) ReplayKeeping(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	return s.replayAll(ctx, topic, true, ids)
}

// Resolve implements [store.Triage].
func (s *Store) Resolve(ctx context.Context, by, note string, ids ...string) (map[string]error, error) {
	return s.mark(ctx, "resolve", ids, func() *store.Resolution {
		return &store.Resolution{At: s.now(), By: store.Text(by), Note: store.Text(note)}
	})
}

// Reopen implements [store.Triage].
func (s *Store) Reopen(ctx context.Context, ids ...string) (map[string]error, error) {
	return s.mark(ctx, "reopen", ids, func() *store.Resolution { return nil })
}

func (s *Store) mark(ctx context.Context, op string, ids []string,
	with func() *store.Resolution) (map[string]error, error) {
	return s.each(ctx, op, ids, func(m *message) error {
		if m.State != store.IsDead {
			return &store.Error{Op: op + " " + m.ID, Code: store.ErrNotFound, Hint: "it is " + string(m.state())}
		}
		m.Resolved = with()
		return nil
	})
}

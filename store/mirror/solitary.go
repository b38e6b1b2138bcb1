package mirror

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// Solitary implements [store.Solitude]: it asks for each topic the store in which that is
// claimed. A store that cannot tell has none.
func (s *Store) Solitary(ctx context.Context, lease time.Duration, topics ...string) (string, error) {
	var here, there []string
	names := map[string]string{} // of topics, by those in the mirrored store
	for _, t := range topics {
		if s.stages.plans != nil {
			if r := s.stages.route(t); r.stage == Moved {
				names[r.plan.InMirrored()] = t
				there = append(there, r.plan.InMirrored())
				continue
			}
		}
		here = append(here, t)
	}
	if name, err := solitary(ctx, s.primary, lease, here); name != "" || err != nil {
		return name, err
	}
	name, err := solitary(ctx, s.mirrored, lease, there)
	return names[name], err
}

func solitary(ctx context.Context, s store.Store, lease time.Duration, topics []string) (string, error) {
	tells, ok := store.As[store.Solitude](s)
	if !ok || len(topics) == 0 {
		return "", nil
	}
	return tells.Solitary(ctx, lease, topics...)
}

package sqlite

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store/backend"
)

// A message of the run that is settled has no lease any more, though the run
// has one.
const extendLease = `UPDATE pawl_lease SET until = max(until, min(hard, ?3)) WHERE lane = ?1 AND fence = ?2 AND hard > ?4
	AND EXISTS (SELECT 1 FROM pawl_msg m WHERE m.seq = ?5 AND m.seq <= last AND CASE m.lane WHEN 0 THEN m.seq ELSE m.lane END = ?1)`

// Extend implements [store.Store].
func (s *core) Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
	if err := backend.AdmitExtend(by, tokens); err != nil {
		return nil, err
	}
	if len(tokens) == 0 {
		return nil, s.usable(ctx, "extend")
	}
	var lost []pawl.Token
	err := s.write(ctx, &call{op: "extend", phase: toSettle, weight: len(tokens), do: func(k *work) error {
		lost = nil // do may run twice
		for _, t := range tokens {
			extended, err := k.db.exec(extendLease, t.Lane, t.Fence, k.now+micros(by), k.now, t.Seq)
			if err != nil {
				return err
			}
			if extended == 0 {
				lost = append(lost, t)
			}
		}
		return nil
	}})
	return lost, err
}

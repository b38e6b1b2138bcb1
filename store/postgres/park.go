package postgres

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store/backend"
)

const (
	deadLanes = `SELECT DISTINCT lane FROM @dead WHERE lane = ANY ($1::bigint[]) AND topic = $2::int`
	// parkable: messages that may not pass a dead letter of their lane.
	parkable = `SELECT m.lane, m.seq FROM unnest($1::bigint[]) x(lane)
		CROSS JOIN LATERAL (SELECT m.lane, m.seq FROM @msg m WHERE m.lane = x.lane AND m.replays = 0 ORDER BY m.seq LIMIT 5000) m`
)

// park sends messages that wait behind a dead letter of their lane to the dead letters, too,
// and returns the other runs. The lanes are this claim's.
func (s *settler) park(ctx context.Context, c *claiming, runs []run) ([]run, error) {
	var lanes []int64
	for _, r := range runs {
		if r.lane < 0 {
			lanes = append(lanes, r.lane)
		}
	}
	if len(lanes) == 0 {
		return runs, nil
	}
	slices.Sort(lanes)
	blocked := map[int64]bool{}
	err := s.call(ctx, s.back, read(deadLanes, note(blocked, row.int8), int8Array(lanes), int4Value(c.topic.id)))
	if err != nil || len(blocked) == 0 {
		return runs, err
	}
	lanes = slices.DeleteFunc(lanes, func(lane int64) bool { return !blocked[lane] })
	if err := s.parkLanes(ctx, c.fence, lanes); err != nil {
		s.upkeep.tracker.orphan(c.fence)
		return nil, err
	}
	// A replayed message has a rank of its own: the lane is given up, and claimed again when it
	// is its turn.
	return slices.DeleteFunc(runs, func(r run) bool {
		parked := blocked[r.lane] && slices.ContainsFunc(r.heads, func(h head) bool { return h.replays == 0 })
		c.again = c.again || parked
		return parked
	}), nil
}

func (s *settler) parkLanes(ctx context.Context, fence int64, lanes []int64) error {
	return s.within(ctx, s.back, nil, func(t *tx) error {
		w := &writing{}
		err := t.run(ctx,
			read(lockLanes, nil, int8Array(lanes), int8Array(slices.Repeat([]int64{fence}, len(lanes)))),
			read(parkable, func(r row) error {
				w.makeDead(r.int8(0), r.int8(1), pawl.KindParked, backend.ParkedReason)
				return nil
			}, int8Array(lanes)),
			read(readClock, set(&w.at, row.micros), s.skewValue()))
		if err != nil || len(w.dead.seq) == 0 {
			return err
		}
		return t.run(ctx, w.steps(s.core)...)
	})
}

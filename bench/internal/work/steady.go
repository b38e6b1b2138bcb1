package work

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/store"
)

// steady appends at a fixed rate, whatever the arm does, and times how soon
// handlers start.
func (r *Run) steady(ctx context.Context) (Outcome, error) {
	n := r.offered(r.Work.For)
	t := newTrack(n, r.Work.Keys, r.keyOf).timing()
	o, err := r.worked(ctx, t, t.handler(), 0, func() error { return r.pace(ctx, t, n) })
	if err == nil {
		o.timed(t.pickups(r.offered(plan.SteadyWarmUp)))
	}
	return o, err
}

// pace appends what is due every tick; after a slow append it catches up.
func (r *Run) pace(ctx context.Context, t *track, n int) error {
	perTick := max(1, r.offered(plan.SteadyTick))
	began := time.Now()
	for from := 0; from < n; from += perTick {
		due := began.Add(time.Duration(from/perTick) * plan.SteadyTick)
		if err := store.Sleep(ctx, time.Until(due)); err != nil {
			return err
		}
		if err := r.stamped(ctx, t, from, min(from+perTick, n)); err != nil {
			return err
		}
	}
	return nil
}

// stamped appends the jobs of [from, to), and notes when that has returned.
func (r *Run) stamped(ctx context.Context, t *track, from, to int) error {
	err := r.Arm.Append(ctx, r.jobs(from, to))
	t.stamp(from, to)
	return err
}

// lone appends one job at a time into an idle queue.
func (r *Run) lone(ctx context.Context) (Outcome, error) {
	t := newTrack(r.Work.N, 0, nil).timing()
	ran := make(chan struct{}, r.Work.N)
	h := t.handler()
	h.Do = func(index int) {
		t.handle(index)
		ran <- struct{}{}
	}
	o, err := r.worked(ctx, t, h, 0, func() error { return r.alone(ctx, t, ran) })
	if err == nil {
		o.timed(t.pickups(0))
	}
	return o, err
}

func (r *Run) alone(ctx context.Context, t *track, ran <-chan struct{}) error {
	rng := rand.New(rand.NewPCG(plan.Seed, uint64(r.Round)))
	for i := range r.Work.N {
		gap := plan.LoneGapMin + time.Duration(rng.Int64N(int64(plan.LoneGapMax-plan.LoneGapMin)))
		if err := store.Sleep(ctx, gap); err != nil {
			return err
		}
		if err := r.stamped(ctx, t, i, i+1); err != nil {
			return err
		}
		select {
		case <-ran:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

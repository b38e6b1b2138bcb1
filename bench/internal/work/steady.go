package work

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// steady appends at a fixed rate, whatever the arm does, and times how soon
// handlers start.
func (r *Run) steady(ctx context.Context) (o Outcome, err error) {
	if err := r.begin(ctx); err != nil {
		return o, err
	}
	n := int(float64(r.Work.Rate) * r.Work.For.Seconds())
	t := newTrack(n, r.Work.Keys, r.keyOf).timing()
	stop, err := r.Arm.Work(ctx, t.handler())
	if err != nil {
		return o, err
	}
	began := time.Now()
	err = r.pace(ctx, t, n)
	if err == nil {
		err = errors.Join(t.wait(ctx), r.drained(ctx, 0))
	}
	o.Ran(n, began)
	err = errors.Join(err, r.Meter.End(ctx), r.finish(ctx, &o, t, stop))
	if err == nil {
		o.Timed = true
		o.P50, o.P99 = t.pickup(int(float64(r.Work.Rate) * plan.SteadyWarmUp.Seconds()))
	}
	return o, err
}

// pace appends what is due every tick; after a slow append it catches up.
func (r *Run) pace(ctx context.Context, t *track, n int) error {
	perTick := max(1, int(float64(r.Work.Rate)*plan.SteadyTick.Seconds()))
	began := time.Now()
	for from := 0; from < n; from += perTick {
		due := began.Add(time.Duration(from/perTick) * plan.SteadyTick)
		if err := sleep(ctx, time.Until(due)); err != nil {
			return err
		}
		to := min(from+perTick, n)
		if err := r.Arm.Append(ctx, r.jobs(from, to)); err != nil {
			return err
		}
		t.stamp(from, to)
	}
	return nil
}

// lone appends one job at a time into an idle queue.
func (r *Run) lone(ctx context.Context) (o Outcome, err error) {
	if err := r.begin(ctx); err != nil {
		return o, err
	}
	t := newTrack(r.Work.N, 0, nil).timing()
	ran := make(chan struct{}, r.Work.N)
	h := t.handler()
	h.Do = func(index int) {
		t.handle(index)
		ran <- struct{}{}
	}
	stop, err := r.Arm.Work(ctx, h)
	if err != nil {
		return o, err
	}
	began := time.Now()
	err = r.alone(ctx, t, ran)
	o.Ran(r.Work.N, began)
	err = errors.Join(err, r.drained(ctx, 0), r.Meter.End(ctx), r.finish(ctx, &o, t, stop))
	if err == nil {
		o.Timed = true
		o.P50, o.P99 = t.pickup(0)
	}
	return o, err
}

func (r *Run) alone(ctx context.Context, t *track, ran <-chan struct{}) error {
	rng := rand.New(rand.NewPCG(plan.Seed, uint64(r.Round)))
	for i := range r.Work.N {
		gap := plan.LoneGapMin + time.Duration(rng.Int64N(int64(plan.LoneGapMax-plan.LoneGapMin)))
		if err := sleep(ctx, gap); err != nil {
			return err
		}
		if err := r.Arm.Append(ctx, r.jobs(i, i+1)); err != nil {
			return err
		}
		t.stamp(i, i+1)
		select {
		case <-ran:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

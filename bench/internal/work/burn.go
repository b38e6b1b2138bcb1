package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// burn inserts n jobs, closes and opens the arm, and times how long it takes
// until they are done: executed, and settled durably but for plan.TailShare.
func (r *Run) burn(ctx context.Context) (o Outcome, err error) {
	if err := r.prefill(ctx, r.Work.N); err != nil {
		return o, err
	}
	if err := r.Arm.Close(); err != nil {
		return o, err
	}
	if err := r.begin(ctx); err != nil {
		return o, err
	}
	t := newTrack(r.Work.N, r.Work.Keys, r.keyOf)
	began := time.Now()
	stop, err := r.Arm.Work(ctx, t.handler())
	if err != nil {
		return o, err
	}
	err = errors.Join(t.wait(ctx), r.drained(ctx, int(float64(r.Work.N)*plan.TailShare)))
	o.Ran(r.Work.N, began)
	err = errors.Join(err, r.Meter.End(ctx))
	return o, errors.Join(err, r.finish(ctx, &o, t, stop))
}

func (r *Run) prefill(ctx context.Context, n int) error {
	if err := r.Arm.Open(ctx); err != nil {
		return err
	}
	return r.fill(ctx, n)
}

// drained waits until at most left jobs are not durably done.
func (r *Run) drained(ctx context.Context, left int) error {
	for {
		n, err := r.Arm.Left(ctx)
		if err != nil || n <= left {
			return err
		}
		if err := sleep(ctx, plan.TailPoll); err != nil {
			return fmt.Errorf("%d jobs are not settled: %w", n, err)
		}
	}
}

// finish stops the arm and checks that nothing was lost and nothing is left.
func (r *Run) finish(ctx context.Context, o *Outcome, t *track, stop func(context.Context) error) error {
	o.Repeated = int(t.repeated.Load())
	if err := stop(ctx); err != nil {
		return err
	}
	if err := t.check(r.ordered()); err != nil {
		return err
	}
	return r.drained(ctx, 0)
}

func (r *Run) ordered() bool { return r.Work.Keys > 0 && r.Arm.Ordered() }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

package work

import (
	"context"
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
	t := newTrack(r.Work.N, r.Work.Keys, r.keyOf)
	return r.worked(ctx, t, t.handler(), int(float64(r.Work.N)*plan.TailShare), func() error { return nil })
}

func (r *Run) prefill(ctx context.Context, n int) error {
	if err := r.Arm.Open(ctx); err != nil {
		return err
	}
	return r.fill(ctx, n)
}

// consume reads a topic that is there from its start to its end. The clock runs from the first record to the last, so
// that joining a group is not in it; what was carried out is committed by the clock, later.
func (r *Run) consume(ctx context.Context) (o Outcome, err error) {
	wait := time.Sleep
	if r.Work.Answered {
		answered, done, err := answers(plan.KafkaAtOnce)
		if err != nil {
			return o, err
		}
		defer done()
		wait = answered
	}
	t := newTrack(r.Work.N, r.Work.Keys, r.keyOf)
	h := t.handler()
	if r.Work.Takes > 0 {
		h.Do = func(index int) {
			t.begins()
			wait(r.Work.Takes)
			t.handle(index)
		}
	}
	o, err = r.worked(ctx, t, h, r.Work.N, func() error { return nil })
	o.ran(r.Work.N, time.Duration(t.ended.Load()-t.began.Load()))
	return o, err
}

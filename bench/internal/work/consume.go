package work

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// consume reads a topic that is there from its start to its end. The clock runs from the first record to the last, so
// that joining a group is not in it.
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
	if err := r.begin(ctx); err != nil {
		return o, err
	}
	stop, err := r.Arm.Work(ctx, h)
	if err != nil {
		return o, err
	}
	err = errors.Join(t.wait(ctx), r.Meter.End(ctx))
	o.N, o.Elapsed = r.Work.N, time.Duration(t.ended.Load()-t.began.Load())
	o.PerSecond = perSecond(o.N, o.Elapsed)
	if err == nil { // what was carried out is committed by the clock
		err = r.drained(ctx, 0)
	}
	return o, errors.Join(err, r.finish(ctx, &o, t, stop))
}

// paced is an open loop: a job is appended when it is due, by itself, whatever became of those before. Its time counts
// from when it was due until it is durable.
func (r *Run) paced(ctx context.Context) (o Outcome, err error) {
	if err := r.begin(ctx); err != nil {
		return o, err
	}
	n := int(float64(r.Work.Rate) * r.Work.For.Seconds())
	perTick := int(float64(r.Work.Rate) * plan.PacedTick.Seconds())
	took, errs := make([]time.Duration, n), make([]error, n)
	var all sync.WaitGroup
	began := time.Now()
	for i := range n {
		due := began.Add(time.Duration(i/perTick) * plan.PacedTick)
		if err := sleep(ctx, time.Until(due)); err != nil {
			return o, err
		}
		job := r.jobs(i, i+1)
		all.Go(func() {
			errs[i] = r.Arm.Append(ctx, job)
			took[i] = time.Since(due)
		})
	}
	all.Wait()
	o.Ran(n, began)
	warm := took[min(int(float64(r.Work.Rate)*plan.PacedWarmUp.Seconds()), n/2):]
	slices.Sort(warm)
	o.Timed, o.P50, o.P99 = true, meter.Percentile(warm, 0.50), meter.Percentile(warm, 0.99)
	return o, errors.Join(errors.Join(errs...), r.Meter.End(ctx), r.stored(ctx, n))
}

// stored wants n jobs to be there.
func (r *Run) stored(ctx context.Context, n int) error {
	got, err := r.Arm.Left(ctx)
	if err == nil && got != n {
		err = fmt.Errorf("%d of %d jobs are stored", got, n)
	}
	return err
}

package work

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl/bench/internal/arm"
	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/store"
)

// hold inserts and works at once: producers keep the backlog at a depth, so
// that the arm's own speed sets the rate, and the rate is noted by slices.
func (r *Run) hold(ctx context.Context) (o Outcome, err error) {
	if err := r.prefill(ctx, r.Work.Depth); err != nil {
		return o, err
	}
	if err := r.tidy(ctx); err != nil {
		return o, err
	}
	if r.Work.Pinned {
		release, failed := r.Pin(ctx)
		if failed != nil {
			return o, failed
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	if err := r.Meter.Begin(ctx); err != nil {
		return o, err
	}
	h := backlog{run: r}
	h.appended.Store(int64(r.Work.Depth))
	h.next.Store(int64(r.Work.Depth))
	began := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, err := r.Arm.Work(ctx, arm.Handler{Do: func(int) { h.handled.Add(1) }, Failed: cancel})
	if err != nil {
		return o, err
	}
	o.Slices, err = h.keepUp(ctx)
	o.ran(int(h.handled.Load()), time.Since(began))
	err = errors.Join(err, r.Meter.End(ctx), stop(ctx))
	return o, errors.Join(err, h.check(ctx, &o))
}

type backlog struct {
	run                     *Run
	next, appended, handled atomic.Int64
}

// keepUp produces for as long as the work says, and samples the rate.
func (b *backlog) keepUp(ctx context.Context) (slices []float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g, gctx := errgroup.WithContext(ctx)
	for range b.run.producers() {
		g.Go(func() error { return b.produce(gctx, cancel) })
	}
	rate := sampling(&b.handled)
	for range int(b.run.Work.For / plan.Slice) {
		if store.Sleep(gctx, plan.Slice) != nil {
			break // a producer failed: Wait says why
		}
		slices = append(slices, rate())
	}
	cancel()
	return slices, g.Wait()
}

// sampling returns what a count grew by a second since the last call.
func sampling(count *atomic.Int64) func() float64 {
	before, since := count.Load(), time.Now()
	return func() float64 {
		now, at := count.Load(), time.Now()
		rate := perSecond(int(now-before), at.Sub(since))
		before, since = now, at
		return rate
	}
}

// produce appends while less than the depth is waiting. The end of ctx ends it
// without an error, and never in the middle of an append.
func (b *backlog) produce(ctx context.Context, cancel context.CancelFunc) error {
	for ctx.Err() == nil {
		if b.next.Load()-b.handled.Load() >= int64(b.run.Work.Depth) {
			_ = store.Sleep(ctx, time.Millisecond) // ends the loop when ctx is done
			continue
		}
		to := b.next.Add(plan.AppendBatch)
		if err := b.run.Arm.Append(context.WithoutCancel(ctx),
			b.run.jobs(int(to)-plan.AppendBatch, int(to))); err != nil {
			cancel()
			return err
		}
		b.appended.Add(plan.AppendBatch)
	}
	return nil
}

// check compares what was appended with what was executed and what is left.
func (b *backlog) check(ctx context.Context, o *Outcome) error {
	left, err := b.run.Arm.Left(ctx)
	if err != nil {
		return err
	}
	over := b.handled.Load() + int64(left) - b.appended.Load()
	if over < 0 {
		return fmt.Errorf("%d of %d jobs are lost", -over, b.appended.Load())
	}
	o.Repeated = int(over)
	return nil
}

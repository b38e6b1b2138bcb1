package work

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// drill appends at a fixed rate while a snapshot is pinned for the middle three fifths of the time, and notes for each
// fiftieth of it how many jobs were done a second, and how many are behind at its end.
func (r *Run) drill(ctx context.Context) (o Outcome, err error) {
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
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.pace(gctx, t, n) })
	g.Go(func() (err error) {
		o.Slices, o.Backlog, err = r.underPin(gctx, t)
		return err
	})
	if err = g.Wait(); err == nil {
		err = errors.Join(t.wait(ctx), r.drained(ctx, 0))
	}
	o.Ran(n, began)
	return o, errors.Join(err, r.Meter.End(ctx), r.finish(ctx, &o, t, stop))
}

// underPin samples, and holds the snapshot from one fifth of the slices to four.
func (r *Run) underPin(ctx context.Context, t *track) (perSlice []float64, behind []int, err error) {
	const fifth = plan.DrillSlices / 5
	release := func() error { return nil }
	defer func() { err = errors.Join(err, release()) }()
	slice := r.Work.For / plan.DrillSlices
	began, before, since := time.Now(), int64(0), time.Now()
	for i := range plan.DrillSlices {
		switch i {
		case fifth:
			if release, err = r.Pin(ctx); err != nil {
				release = func() error { return nil }
				return perSlice, behind, err
			}
		case 4 * fifth:
			if err := release(); err != nil {
				return perSlice, behind, err
			}
			release = func() error { return nil }
		}
		if err := sleep(ctx, time.Until(began.Add(time.Duration(i+1)*slice))); err != nil {
			return perSlice, behind, err
		}
		now, at := t.handled.Load(), time.Now()
		perSlice = append(perSlice, perSecond(int(now-before), at.Sub(since)))
		behind = append(behind, max(0, int(float64(r.Work.Rate)*at.Sub(began).Seconds())-int(now)))
		before, since = now, at
	}
	return perSlice, behind, nil
}

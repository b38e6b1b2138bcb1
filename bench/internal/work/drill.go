package work

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/store"
)

// drill appends at a fixed rate while a snapshot is pinned for the middle three fifths of the time, and notes for each
// fiftieth of it how many jobs were done a second, and how many are behind at its end.
func (r *Run) drill(ctx context.Context) (Outcome, error) {
	n := r.offered(r.Work.For)
	t := newTrack(n, r.Work.Keys, r.keyOf).timing()
	var perSlice []float64
	var behind []int
	o, err := r.worked(ctx, t, t.handler(), 0, func() error {
		g, gctx := errgroup.WithContext(ctx)
		g.Go(func() error { return r.pace(gctx, t, n) })
		g.Go(func() (err error) {
			perSlice, behind, err = r.underPin(gctx, t)
			return err
		})
		return g.Wait()
	})
	o.Slices, o.Backlog = perSlice, behind
	return o, err
}

// underPin samples, and holds the snapshot from one fifth of the slices to four.
func (r *Run) underPin(ctx context.Context, t *track) (perSlice []float64, behind []int, err error) {
	const fifth = plan.DrillSlices / 5
	none := func() error { return nil }
	release := none
	defer func() { err = errors.Join(err, release()) }()
	slice, began := r.Work.For/plan.DrillSlices, time.Now()
	rate := sampling(&t.handled)
	for i := range plan.DrillSlices {
		switch i {
		case fifth:
			pinned, err := r.Pin(ctx)
			if err != nil {
				return perSlice, behind, err
			}
			release = pinned
		case 4 * fifth:
			err = release()
			release = none
		}
		if err = errors.Join(err, store.Sleep(ctx, time.Until(began.Add(time.Duration(i+1)*slice)))); err != nil {
			return perSlice, behind, err
		}
		perSlice = append(perSlice, rate())
		behind = append(behind, max(0, r.offered(time.Since(began))-int(t.handled.Load())))
	}
	return perSlice, behind, nil
}

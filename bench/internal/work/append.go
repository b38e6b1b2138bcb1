package work

import (
	"cmp"
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// append times the insertion of n jobs.
func (r *Run) append(ctx context.Context) (o Outcome, err error) {
	if err := r.begin(ctx); err != nil {
		return o, err
	}
	began := time.Now()
	if err := r.fill(ctx, r.Work.N); err != nil {
		return o, err
	}
	o.Ran(r.Work.N, began)
	return o, errors.Join(r.Meter.End(ctx), r.stored(ctx, r.Work.N))
}

// fill appends jobs 0 to n-1 in full batches, spread over the producers.
func (r *Run) fill(ctx context.Context, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	producers, batch := r.producers(), cmp.Or(r.Work.Batch, plan.AppendBatch)
	for p := range producers {
		g.Go(func() error {
			for from := p * batch; from < n; from += producers * batch {
				if err := r.Arm.Append(ctx, r.jobs(from, min(from+batch, n))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

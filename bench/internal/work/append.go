package work

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/store"
)

// append times the insertion of n jobs.
func (r *Run) append(ctx context.Context) (Outcome, error) {
	return r.inserted(ctx, r.Work.N, func() error { return r.fill(ctx, r.Work.N) })
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

// paced is an open loop: a job is appended when it is due, by itself, whatever became of those before. Its time counts
// from when it was due until it is durable.
func (r *Run) paced(ctx context.Context) (Outcome, error) {
	n, perTick := r.offered(r.Work.For), r.offered(plan.PacedTick)
	took, errs := make([]time.Duration, n), make([]error, n)
	o, err := r.inserted(ctx, n, func() error {
		var all sync.WaitGroup
		began := time.Now()
		for i := range n {
			due := began.Add(time.Duration(i/perTick) * plan.PacedTick)
			if err := store.Sleep(ctx, time.Until(due)); err != nil {
				return err
			}
			job := r.jobs(i, i+1)
			all.Go(func() {
				errs[i] = r.Arm.Append(ctx, job)
				took[i] = time.Since(due)
			})
		}
		all.Wait()
		return errors.Join(errs...)
	})
	o.timed(took[min(r.offered(plan.PacedWarmUp), n/2):])
	return o, err
}

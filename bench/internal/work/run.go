// Package work drives an arm through a work: append, burn, steady, hold, lone, drill, consume, paced.
// The same code drives every arm; it checks that no job was lost and that keyed
// jobs kept their order, and leaves the judgement of speed to the reader.
package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/arm"
	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// Run is one arm doing one work once. Its database is its own and empty.
type Run struct {
	Arm   arm.Arm
	Meter *meter.Meter
	Work  plan.Work
	Round int
	// Tidy brings the arm's database into a comparable state after jobs were
	// inserted: VACUUM ANALYZE and CHECKPOINT. Nil: nothing to do.
	Tidy func(context.Context) error
	// Pin opens a snapshot that stays until the returned function is called.
	Pin func(context.Context) (release func() error, err error)
}

// Outcome is what a run measured.
type Outcome struct {
	N         int // jobs executed, or inserted by an append
	Elapsed   time.Duration
	PerSecond float64
	P50, P99  time.Duration // from append returned to handler started
	Timed     bool          // P50 and P99 are set
	Slices    []float64     // jobs per second, slice by slice
	Backlog   []int         // jobs that were due and not done, at the end of each slice (drill)
	Repeated  int           // executions of a job beyond its first
	Costs     meter.Costs
	RSS       int64
}

// Do sets the arm up, runs the work and closes the arm.
func (r *Run) Do(ctx context.Context) (o Outcome, err error) {
	if err := r.Arm.Setup(ctx); err != nil {
		return o, err
	}
	switch r.Work.Kind {
	case plan.Append:
		o, err = r.append(ctx)
	case plan.Burn:
		o, err = r.burn(ctx)
	case plan.Steady:
		o, err = r.steady(ctx)
	case plan.Hold:
		o, err = r.hold(ctx)
	case plan.Drill:
		o, err = r.drill(ctx)
	case plan.Lone:
		o, err = r.lone(ctx)
	case plan.Consume:
		o, err = r.consume(ctx)
	case plan.Paced:
		o, err = r.paced(ctx)
	default:
		err = fmt.Errorf("no such kind of work: %q", r.Work.Kind)
	}
	o.RSS = meter.PeakRSS()
	if err = errors.Join(err, r.Arm.Close()); err != nil {
		return o, err
	}
	o.Costs, err = r.Meter.Settle(ctx)
	return o, err
}

// Settings are those of the arm.
func (r *Run) Settings() string { return r.Arm.Settings() }

// Ran notes that n jobs were done since began.
func (o *Outcome) Ran(n int, began time.Time) {
	o.N, o.Elapsed = n, time.Since(began)
	o.PerSecond = perSecond(n, o.Elapsed)
}

func (r *Run) tidy(ctx context.Context) error {
	if r.Tidy == nil {
		return nil
	}
	return r.Tidy(ctx)
}

// begin starts what is measured, in a database that is tidy, and opens the arm.
func (r *Run) begin(ctx context.Context) error {
	if err := r.tidy(ctx); err != nil {
		return err
	}
	if err := r.Meter.Begin(ctx); err != nil {
		return err
	}
	return r.Arm.Open(ctx)
}

// job makes the job of an index; the same index has the same key in every arm.
func (r *Run) job(index int) arm.Job {
	j := arm.Job{Index: index}
	if r.Work.Keys > 0 {
		j.Key = fmt.Appendf(nil, "key-%07d", r.keyOf(index))
	}
	return j
}

func (r *Run) keyOf(index int) int {
	rng := rand.NewPCG(uint64(plan.Seed+r.Round), uint64(index))
	return int(rng.Uint64() % uint64(r.Work.Keys))
}

func (r *Run) producers() int {
	if r.Work.Keys > 0 {
		return cmp.Or(r.Work.Producers, 1) // two could not keep the order of a key
	}
	return plan.AppendProducers
}

func (r *Run) jobs(from, to int) []arm.Job {
	batch := make([]arm.Job, 0, to-from)
	for i := from; i < to; i++ {
		batch = append(batch, r.job(i))
	}
	return batch
}

func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

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
	"slices"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/arm"
	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/store"
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

// Outcome is what a run measured. The names are a contract with whoever reads the files of results.
type Outcome struct {
	N         int      `json:"n"` // jobs executed, or inserted by an append
	PerSecond float64  `json:"per_second"`
	P50       *float64 `json:"p50_ms,omitempty"` // from append returned to handler started
	P99       *float64 `json:"p99_ms,omitempty"`
	meter.Costs
	RSS      int64     `json:"rss_bytes,omitempty"`
	Slices   []float64 `json:"slices_per_second,omitempty"` // jobs, slice by slice
	Backlog  []int     `json:"backlog_by_slice,omitempty"`  // jobs that were due and not done, at the end of each slice (drill)
	Repeated int       `json:"repeated,omitempty"`          // executions of a job beyond its first
}

// Do sets the arm up, runs the work and closes the arm.
func (r *Run) Do(ctx context.Context) (o Outcome, err error) {
	if err := r.Arm.Setup(ctx); err != nil {
		return o, err
	}
	do := map[plan.Kind]func(context.Context) (Outcome, error){
		plan.Append: r.append, plan.Burn: r.burn, plan.Steady: r.steady, plan.Hold: r.hold, plan.Drill: r.drill,
		plan.Lone: r.lone, plan.Consume: r.consume, plan.Paced: r.paced,
	}[r.Work.Kind]
	if do == nil {
		return o, fmt.Errorf("no such kind of work: %q", r.Work.Kind)
	}
	o, err = do(ctx)
	o.RSS = meter.PeakRSS()
	if err = errors.Join(err, r.Arm.Close()); err != nil {
		return o, err
	}
	o.Costs, err = r.Meter.Settle(ctx, o.N)
	return o, err
}

// Settings are those of the arm.
func (r *Run) Settings() string { return r.Arm.Settings() }

// ran notes that n jobs were done in that time.
func (o *Outcome) ran(n int, took time.Duration) {
	o.N, o.PerSecond = n, perSecond(n, took)
}

// timed notes how long jobs waited.
func (o *Outcome) timed(waits []time.Duration) {
	slices.Sort(waits)
	at := func(p float64) *float64 { return new(meter.Percentile(waits, p).Seconds() * 1000) }
	o.P50, o.P99 = at(0.50), at(0.99)
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

// offered is how many jobs a rate comes to in a time.
func (r *Run) offered(d time.Duration) int { return int(float64(r.Work.Rate) * d.Seconds()) }

// inserted is the frame of the kinds that only insert: it times do, and wants n jobs to be stored.
func (r *Run) inserted(ctx context.Context, n int, do func() error) (o Outcome, err error) {
	if err := r.begin(ctx); err != nil {
		return o, err
	}
	began := time.Now()
	if err := do(); err != nil {
		return o, err
	}
	o.ran(n, time.Since(began))
	if err := r.Meter.End(ctx); err != nil {
		return o, err
	}
	stored, err := r.Arm.Left(ctx)
	if err == nil && stored != n {
		err = fmt.Errorf("%d of %d jobs are stored", stored, n)
	}
	return o, err
}

// worked is the frame of the kinds that work jobs off: h is told of them while do goes on, and the clock ends when all
// are executed and at most left of them are to be settled. It checks that nothing was lost and nothing is left.
func (r *Run) worked(ctx context.Context, t *track, h arm.Handler, left int, do func() error) (o Outcome, err error) {
	if err := r.begin(ctx); err != nil {
		return o, err
	}
	began := time.Now()
	stop, err := r.Arm.Work(ctx, h)
	if err != nil {
		return o, err
	}
	if err = do(); err == nil {
		err = t.wait(ctx)
	}
	if err == nil {
		err = r.drained(ctx, left)
	}
	o.ran(int(t.want), time.Since(began))
	if err = errors.Join(err, r.Meter.End(ctx)); err == nil {
		err = r.drained(ctx, 0)
	}
	o.Repeated = int(t.repeated.Load())
	if err = errors.Join(err, stop(ctx)); err == nil {
		err = t.check(r.Work.Keys > 0 && r.Arm.Ordered())
	}
	if err == nil {
		err = r.drained(ctx, 0)
	}
	return o, err
}

// drained waits until at most left jobs are not durably done.
func (r *Run) drained(ctx context.Context, left int) error {
	for {
		n, err := r.Arm.Left(ctx)
		if err != nil || n <= left {
			return err
		}
		if err := store.Sleep(ctx, plan.TailPoll); err != nil {
			return fmt.Errorf("%d jobs are not settled: %w", n, err)
		}
	}
}

func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }

package work

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/arm"
	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// Every kind of work, small, with the real SQLite arms.
func TestEveryKindOnEverySQLiteArm(t *testing.T) {
	works := []plan.Work{
		{Name: "append", Kind: plan.Append, N: 2500},
		{Name: "burn", Kind: plan.Burn, N: 300},
		{Name: "keyed", Kind: plan.Burn, N: 3000, Keys: 50},
		{Name: "steady", Kind: plan.Steady, Rate: 200, For: 1200 * time.Millisecond},
		{Name: "hold", Kind: plan.Hold, Depth: 1500, For: plan.Slice},
		{Name: "lone", Kind: plan.Lone, N: 3},
	}
	for _, name := range []string{plan.Pawl, plan.Goqite, plan.Backlite} {
		for _, w := range works {
			if name == plan.Backlite && w.Kind == plan.Hold {
				continue // its Stop waits for ever when tasks are left, and no plan asks for it
			}
			w.Suite = plan.SQLite
			t.Run(name+"/"+w.Name, func(t *testing.T) {
				t.Parallel()
				once(t, name, w)
			})
		}
	}
}

func once(t *testing.T, name string, w plan.Work) {
	a, err := arm.New(name, filepath.Join(t.TempDir(), "bench.db"), w)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r := Run{Arm: a, Meter: &meter.Meter{}, Work: w}
	o, err := r.Do(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if o.N == 0 || o.PerSecond <= 0 || o.CPU == nil || *o.CPU <= 0 || o.RSS == 0 {
		t.Errorf("outcome without figures: %+v", o)
	}
	if w.N > 0 && o.N != w.N {
		t.Errorf("%d jobs instead of %d", o.N, w.N)
	}
	if timed := w.Kind == plan.Steady || w.Kind == plan.Lone; timed != (o.P50 != nil) {
		t.Errorf("p50 = %v", o.P50)
	}
	if w.Kind == plan.Hold && len(o.Slices) != 1 {
		t.Errorf("slices = %v", o.Slices)
	}
}

func TestTrackFindsLossRepetitionAndDisorder(t *testing.T) {
	same := func(int) int { return 0 }
	tr := newTrack(3, 1, same)
	tr.handle(1)
	tr.handle(1)
	if err := tr.check(true); err == nil {
		t.Error("two of three jobs missing, and check is content")
	}
	tr.handle(0) // after 1, which has the same key
	tr.handle(2)
	if err := tr.wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := tr.check(true); err == nil {
		t.Error("0 ran after 1, and check is content")
	}
	if err := tr.check(false); err != nil {
		t.Errorf("unordered: %v", err)
	}
	if got, wrong := tr.repeated.Load(), tr.wrong.Load(); got != 1 || wrong != 1 {
		t.Errorf("%d repetitions and %d in disorder instead of 1 and 1", got, wrong)
	}
}

func TestPickupCountsFromTheAppend(t *testing.T) {
	tr := newTrack(4, 0, nil)
	ms := time.Millisecond
	tr.appended = []time.Duration{0, 10 * ms, 20 * ms, 30 * ms}
	tr.started = []time.Duration{900 * ms, 13 * ms, 19 * ms, 29 * ms} // the first is warm-up, the last two began early
	var o Outcome
	if o.timed(tr.pickups(1)); *o.P50 != 0 || *o.P99 != 3 {
		t.Errorf("pickup = %v, %v; want 0, 3 ms", *o.P50, *o.P99)
	}
}

// Two producers append every job once, in full batches.
func TestFillCoversEveryIndexOnce(t *testing.T) {
	for _, n := range []int{1, plan.AppendBatch, 2*plan.AppendBatch + 7} {
		seen := &counting{got: make([]int, n)}
		r := Run{Arm: seen}
		if err := r.fill(t.Context(), n); err != nil {
			t.Fatal(err)
		}
		for i, times := range seen.got {
			if times != 1 {
				t.Fatalf("n = %d: job %d was appended %d times", n, i, times)
			}
		}
	}
}

// Keys depend on index and round alone, so that every arm gets the same.
func TestKeysAreTheSameForEveryArm(t *testing.T) {
	a, b := Run{Work: plan.Work{Keys: 100}, Round: 1}, Run{Work: plan.Work{Keys: 100}, Round: 2}
	differ := false
	for i := range 1000 {
		if string(a.job(i).Key) != string(a.job(i).Key) {
			t.Fatal("two keys for one index")
		}
		differ = differ || a.keyOf(i) != b.keyOf(i)
	}
	if !differ {
		t.Error("the rounds have the same keys")
	}
}

// counting is an arm of which only Append is called.
type counting struct {
	arm.Arm
	mu  sync.Mutex
	got []int
}

func (c *counting) Append(_ context.Context, jobs []arm.Job) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range jobs {
		c.got[j.Index]++
	}
	return nil
}

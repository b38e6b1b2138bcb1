package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// suspects appends messages and lets a lease of each end unsettled.
func (r *rig) suspects(msgs ...pawl.Message) {
	r.Helper()
	r.store.gate <- struct{}{} // so that no dispatcher is quicker
	defer func() { <-r.store.gate }()
	r.append(msgs...)
	ds, err := r.mem.Claim(context.Background(), []store.Want{{Topic: msgs[0].Topic, Limit: len(msgs)}}, store.Lease{For: time.Millisecond})
	if err != nil || len(ds) != len(msgs) {
		r.Fatal(err, len(ds))
	}
	time.Sleep(2 * time.Millisecond)
}

// A message that kills its process ends as a dead letter, after one death in
// company and three alone, and takes nobody with it.
func TestKillerIsIsolated(t *testing.T) {
	bubble(t, func(r *rig) {
		var kills atomic.Int64
		r.append(numbered("a", 40)...)
		r.append(keyed("a", "k", 5)...)
		for range 20 {
			var d *dispatch.Dispatcher
			ready := make(chan struct{})
			c := one(8, func(ctx context.Context, del *pawl.Delivery) error {
				<-ready
				if del.ID == "a-3" || del.ID == "k-2" {
					kills.Add(1)
					d.Kill()
					<-ctx.Done()
					return nil
				}
				time.Sleep(50 * time.Millisecond)
				return nil
			})
			c.UntilEmpty = true
			d, stop, done := r.start(c)
			close(ready)
			err := <-done
			stop()
			if err == nil {
				break
			}
			time.Sleep(10 * time.Second) // a restart takes its time
		}
		equal(r, kills.Load(), int64(8))
		for _, id := range []string{"a-3", "k-2"} {
			rec := r.get(id)
			equal(r, []any{rec.State, rec.Kind, rec.Attempts, rec.Lonely}, []any{store.IsDead, pawl.KindRescue, 0, 3})
		}
		s := r.stats("a")
		equal(r, []int64{s.Acked, s.Dead}, []int64{43, 2})
	})
}

// Nothing is carried out beside a suspect, also when it comes while others run.
func TestSuspectIsCarriedOutAlone(t *testing.T) {
	bubble(t, func(r *rig) {
		var running atomic.Int64
		var seen diary
		h := func(_ context.Context, d *pawl.Delivery) error {
			n := running.Add(1)
			defer running.Add(-1)
			if d.Rescues > 0 {
				seen.add("%s beside %d", d.ID, n-1)
			}
			time.Sleep(300 * time.Millisecond)
			if d.Rescues > 0 && running.Load() != 1 {
				t.Errorf("%s got company", d.ID)
			}
			return nil
		}
		r.append(numbered("a", 40)...)
		r.run(one(4, h))
		time.Sleep(time.Second)
		r.suspects(pawl.Message{Topic: "a", ID: "s", Priority: pawl.MaxPriority})
		time.Sleep(20 * time.Second)
		equal(r, seen.list(), []string{"s beside 0"})
		equal(r, r.stats("a").Acked, int64(41))
	})
}

// In a stream of quick work, a suspect is alone, too: what only waits here makes
// way for it.
func TestSuspectInAStreamOfQuickWork(t *testing.T) {
	bubble(t, func(r *rig) {
		var running atomic.Int64
		var seen diary
		r.append(numbered("a", 50_000)...)
		r.run(one(4, func(_ context.Context, d *pawl.Delivery) error {
			n := running.Add(1)
			defer running.Add(-1)
			if d.Rescues > 0 {
				seen.add("%s beside %d of %d", d.ID, n-1, r.d.Snapshot().Held)
			}
			time.Sleep(100 * time.Microsecond)
			return nil
		}))
		time.Sleep(100 * time.Millisecond)
		if w := r.d.Snapshot().Topics[0].Waiting; w < 100 {
			r.Fatalf("the test shows nothing: %d wait", w)
		}
		r.suspects(pawl.Message{Topic: "a", ID: "s", Priority: pawl.MaxPriority})
		time.Sleep(100 * time.Millisecond)
		equal(r, seen.list(), []string{"s beside 0 of 1"})
		time.Sleep(10 * time.Second)
		s := r.stats("a")
		equal(r, []int64{s.Acked, s.Rescues}, []int64{50_001, 1})
	})
}

// Long handlers are not stalled by suspects: after two seconds one is carried
// out in company, and the next ones at once, one at a time.
func TestSuspectsInCompany(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		var suspects atomic.Int64
		r.append(pawl.Message{Topic: "a", ID: "long"})
		var began time.Time
		r.run(one(4, func(_ context.Context, d *pawl.Delivery) error {
			if d.ID == "long" {
				time.Sleep(time.Minute)
				return nil
			}
			if d.Rescues > 0 {
				if suspects.Add(1) > 1 {
					t.Error("two suspects at once")
				}
				defer suspects.Add(-1)
				seen.add("%s after %v", d.ID, time.Since(began).Truncate(time.Second))
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		}))
		time.Sleep(time.Second)
		began = time.Now()
		r.suspects(pawl.Message{Topic: "a", ID: "s"}, pawl.Message{Topic: "a", ID: "u"}, pawl.Message{Topic: "a", ID: "v"})
		r.append(numbered("a", 100)...)
		time.Sleep(10 * time.Second)
		got := seen.list()
		equal(r, len(got), 3)
		equal(r, got[0], "s after 2s")
		if got[2] > "v after 5s" {
			r.Fatal(got)
		}
		equal(r, r.stats("a").Acked, int64(103))
	})
}

// Hundreds of suspects after a crash, and normal work on top: both get on, and
// all is well within seconds.
func TestManySuspectsAndNormalWork(t *testing.T) {
	bubble(t, func(r *rig) {
		var last, normalAt atomic.Int64
		var normal atomic.Int64
		began := time.Now()
		r.store.claim = func([]store.Want, store.Lease) error { time.Sleep(time.Millisecond); return nil }
		r.store.settle = func(store.Batch[store.Settlement]) error { time.Sleep(time.Millisecond); return nil }
		r.suspects(numbered("a", 500)...)
		r.append(numbered("a0", 1)...)
		more := numbered("a", 3000)
		for i := range more {
			more[i].ID += "n"
		}
		r.append(more...)
		c := one(16, func(_ context.Context, d *pawl.Delivery) error {
			time.Sleep(2 * time.Millisecond)
			if d.Rescues > 0 {
				last.Store(int64(time.Since(began)))
			} else {
				normal.Add(1)
				normalAt.Store(int64(time.Since(began)))
			}
			return nil
		})
		c.UntilEmpty = true
		r.run(c)
		time.Sleep(3 * time.Second)
		if n := normal.Load(); n < 500 {
			r.Errorf("%d of the others in the first 3 s", n)
		}
		equal(r, r.ended(), nil)
		if took := time.Since(began); took > 12*time.Second {
			r.Errorf("took %v; suspects %v, others %v", took, time.Duration(last.Load()), time.Duration(normalAt.Load()))
		}
		r.Logf("all done after %v; suspects %v, others %v", time.Since(began), time.Duration(last.Load()), time.Duration(normalAt.Load()))
		equal(r, r.stats("a").Acked, int64(3500))
	})
}

// A suspect that takes long is left alone for as long; then the others get as
// much time before the next one.
func TestLongSuspectsTakeTurns(t *testing.T) {
	bubble(t, func(r *rig) {
		var normal atomic.Int64
		r.suspects(numbered("a", 3)...)
		more := numbered("a", 2000)
		for i := range more {
			more[i].ID += "n"
		}
		r.append(more...)
		r.run(one(4, func(_ context.Context, d *pawl.Delivery) error {
			if d.Rescues > 0 {
				time.Sleep(30 * time.Second)
				return nil
			}
			normal.Add(1)
			time.Sleep(100 * time.Millisecond)
			return nil
		}))
		time.Sleep(29 * time.Second)
		equal(r, normal.Load(), int64(0))
		time.Sleep(30 * time.Second)
		if n := normal.Load(); n < 1000 {
			r.Fatalf("%d of the others in 30 s", n)
		}
		time.Sleep(3 * time.Minute)
		equal(r, r.stats("a").Acked, int64(2003))
	})
}

// A suspect that fails, or whose handler outlives its deadline, leaves the way
// free.
func TestSuspectThatFailsOrHangs(t *testing.T) {
	bubble(t, func(r *rig) {
		stuck := make(chan struct{})
		defer close(stuck)
		r.suspects(pawl.Message{Topic: "a", ID: "fails"}, pawl.Message{Topic: "a", ID: "hangs"})
		r.append(numbered("a", 10)...)
		c := one(2, func(_ context.Context, d *pawl.Delivery) error {
			switch {
			case d.ID == "fails" && d.Attempt == 1:
				return errBroken
			case d.ID == "hangs":
				<-stuck
			}
			return nil
		})
		c.Topics[0].Settings.Deadline = 10 * time.Second
		c.DrainTimeout = time.Second
		r.run(c)
		time.Sleep(20 * time.Minute)
		equal(r, r.stats("a").Acked, int64(11))
		equal(r, r.get("hangs").Attempts, 1)
	})
}

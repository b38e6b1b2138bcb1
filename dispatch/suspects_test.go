package dispatch_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// rescued appends messages and lets so many leases of each end unsettled, all of one
// owner.
func (r *rig) rescued(times int, msgs ...pawl.Message) {
	r.Helper()
	r.store.gate <- struct{}{} // so that no dispatcher is quicker
	defer func() { <-r.store.gate }()
	r.append(msgs...)
	for range times {
		ds, err := r.mem.Claim(context.Background(), []store.Want{{Topic: msgs[0].Topic, Limit: len(msgs)}},
			store.Lease{For: time.Millisecond, Owner: "gone", Suspects: 1 << 20})
		if err != nil || len(ds) != len(msgs) {
			r.Fatal(err, len(ds))
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// prefixed are messages with that prefix in their ids.
func prefixed(topic, prefix string, n int) []pawl.Message {
	msgs := numbered(topic, n)
	for i := range msgs {
		msgs[i].ID = prefix + msgs[i].ID
	}
	return msgs
}

// A message that kills its process ends as a dead letter, after four deaths in company
// and three alone, and takes nobody with it.
func TestKillerIsIsolated(t *testing.T) {
	bubble(t, func(r *rig) {
		var kills atomic.Int64
		r.append(numbered("a", 40)...)
		r.append(keyed("a", "k", 5)...)
		for range 40 {
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
			time.Sleep(time.Minute) // a restart takes its time
		}
		if n := kills.Load(); n > 14 {
			r.Errorf("%d crashes", n)
		}
		for _, id := range []string{"a-3", "k-2"} {
			rec := r.get(id)
			equal(r, []any{rec.State, rec.Kind, rec.Attempts, rec.Lonely}, []any{store.IsDead, pawl.KindRescue, 0, 3})
		}
		s := r.stats("a")
		equal(r, []int64{s.Acked, s.Dead}, []int64{43, 2})
	})
}

// What a killed process had in hand is carried out at once and in company.
func TestOneDeathCostsNothing(t *testing.T) {
	bubble(t, func(r *rig) {
		r.rescued(1, prefixed("a", "r", 100)...)
		r.append(numbered("a", 100)...)
		c := one(20, func(context.Context, *pawl.Delivery) error { time.Sleep(time.Second); return nil })
		c.UntilEmpty = true
		began := time.Now()
		r.run(c)
		equal(r, r.ended(), nil)
		if took := time.Since(began); took > 11*time.Second {
			r.Errorf("200 messages of 1 s took 20 slots %v", took)
		}
	})
}

// The suspects in hand weigh 32 at most, and other work goes on beside them.
func TestSuspectsAreWeighed(t *testing.T) {
	for rescues, most := range map[int]int64{2: 32, 3: 4} {
		t.Run(fmt.Sprint(rescues), func(t *testing.T) {
			bubble(t, func(r *rig) {
				var now, peak, others atomic.Int64
				r.rescued(rescues, prefixed("a", "s", 100)...)
				r.append(numbered("a", 1000)...)
				c := one(50, func(_ context.Context, d *pawl.Delivery) error {
					if d.Rescues > 0 {
						n := now.Add(1)
						defer now.Add(-1)
						peak.Store(max(peak.Load(), n))
					} else {
						others.Add(1)
					}
					time.Sleep(time.Second)
					return nil
				})
				c.UntilEmpty = true
				began := time.Now()
				r.run(c)
				time.Sleep(4500 * time.Millisecond)
				if n := others.Load(); n < 5*(50-most)-10 {
					r.Errorf("%d of the others in 5 s", n)
				}
				equal(r, r.ended(), nil)
				equal(r, peak.Load(), most)
				if took := time.Since(began); took > 40*time.Second {
					r.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A suspect that is tried alone has nothing beside it, also where there is work all the time;
// the way to it takes as long as what runs.
func TestRunningAloneIsReached(t *testing.T) {
	bubble(t, func(r *rig) {
		var running atomic.Int64
		var seen diary
		r.rescued(4, pawl.Message{Topic: "a", ID: "s"})
		r.append(numbered("a", 2000)...)
		r.run(one(4, func(_ context.Context, d *pawl.Delivery) error {
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
		}))
		time.Sleep(10 * time.Second)
		equal(r, seen.list(), []string{"s beside 0"})
		if n := r.stats("a").Acked; n < 100 {
			r.Errorf("%d were done in 10 s", n)
		}
	})
}

// Where handlers take longer than a lease, a suspect is tried alone only when the process is idle,
// and most of the time claims go on.
func TestRunningAloneIsGivenUp(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		r.rescued(4, pawl.Message{Topic: "a", ID: "s"})
		r.append(numbered("a", 40)...)
		var running atomic.Int64
		c := one(4, func(_ context.Context, d *pawl.Delivery) error {
			if d.Rescues > 0 {
				seen.add("%s beside %d", d.ID, running.Load())
				return nil
			}
			running.Add(1)
			defer running.Add(-1)
			if d.ID == "a-0" {
				time.Sleep(4 * time.Minute)
				return nil
			}
			time.Sleep(time.Second)
			return nil
		})
		r.run(c)
		time.Sleep(3 * time.Minute)
		equal(r, r.stats("a").Acked, int64(39))
		equal(r, len(seen.list()), 0)
		time.Sleep(2 * time.Minute)
		equal(r, seen.list(), []string{"s beside 0"})
	})
}

// Solitary messages do not starve the others: those have as long as each of them took.
func TestRunningAloneLeavesTimeForOthers(t *testing.T) {
	bubble(t, func(r *rig) {
		var normal atomic.Int64
		r.rescued(4, prefixed("a", "s", 3)...)
		r.append(numbered("a", 2000)...)
		r.run(one(4, func(_ context.Context, d *pawl.Delivery) error {
			if d.Rescues > 0 {
				time.Sleep(30 * time.Second)
				return nil
			}
			normal.Add(1)
			time.Sleep(100 * time.Millisecond)
			return nil
		}))
		time.Sleep(time.Minute)
		if n := normal.Load(); n < 1000 {
			r.Fatalf("%d of the others in a minute", n)
		}
		time.Sleep(4 * time.Minute)
		equal(r, r.stats("a").Acked, int64(2003))
	})
}

// A run that ends when nothing is left waits for a message to be tried alone, and for
// deaths to be old enough.
func TestUntilEmptyWaitsForOneAlone(t *testing.T) {
	bubble(t, func(r *rig) {
		r.rescued(4, pawl.Message{Topic: "a", ID: "s"})
		for i := range 3 {
			r.append(prefixed("a", fmt.Sprint(i), 1)...)
			_, err := r.mem.Claim(context.Background(), []store.Want{{Topic: "a", Limit: 1}},
				store.Lease{For: time.Millisecond, Owner: fmt.Sprint(i)})
			equal(r, err, nil)
			time.Sleep(2 * time.Millisecond)
		}
		c := one(4, func(context.Context, *pawl.Delivery) error { return nil })
		c.UntilEmpty = true
		began := time.Now()
		r.run(c)
		equal(r, r.ended(), nil)
		equal(r, r.stats("a").Acked, int64(4))
		if took := time.Since(began); took < 9*dispatch.DefaultLease || took > 11*dispatch.DefaultLease {
			r.Errorf("it took %v", took)
		}
	})
}

// A message that fails while it is tried alone, or whose handler outlives its deadline, leaves the
// way free, and that is an attempt, not a death.
func TestRunningAloneThatFailsOrHangs(t *testing.T) {
	bubble(t, func(r *rig) {
		stuck := make(chan struct{})
		defer close(stuck)
		r.rescued(4, pawl.Message{Topic: "a", ID: "fails"}, pawl.Message{Topic: "a", ID: "hangs"})
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
		rec := r.get("hangs")
		equal(r, []int{rec.Attempts, rec.Rescues, rec.Lonely}, []int{1, 4, 0})
		if k := rec.History[len(rec.History)-1].Kind; k != string(pawl.KindDeadline) {
			r.Errorf("a handler that outlives its deadline is of kind %s", k)
		}
	})
}

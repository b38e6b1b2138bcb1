package dispatch_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

func TestCarriesOutWhatIsThere(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		r.append(numbered("a", 5000)...)
		c := one(8, func(_ context.Context, d *pawl.Delivery) error {
			seen.add("%s", d.ID)
			return nil
		})
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		got := seen.list()
		slices.Sort(got)
		equal(r, len(slices.Compact(got)), 5000)
		s := r.d.Snapshot()
		if s.Held != 0 || s.Bytes != 0 || s.Unsettled != 0 || s.Topics[0].Acked != 5000 {
			r.Fatalf("%+v", s)
		}
	})
}

// At most as many as the topic's concurrency, and as many, if there is work.
func TestConcurrencyIsReachedAndKept(t *testing.T) {
	bubble(t, func(r *rig) {
		var now, most atomic.Int64
		r.append(numbered("a", 100)...)
		c := one(7, func(context.Context, *pawl.Delivery) error {
			atLeast(&most, now.Add(1))
			time.Sleep(time.Second)
			now.Add(-1)
			return nil
		})
		c.UntilEmpty = true
		r.run(c)
		began := time.Now()
		equal(r, r.ended(), nil)
		equal(r, most.Load(), 7)
		if took := time.Since(began); took > 16*time.Second {
			r.Fatalf("15 rounds of a second took %v", took)
		}
	})
}

// Messages of a key are carried out one at a time and in order, whatever fails.
func TestOrderOfLanes(t *testing.T) {
	bubble(t, func(r *rig) {
		seed := time.Now().UnixNano()
		random := rand.New(rand.NewPCG(uint64(seed), 0))
		r.Logf("seed %d", seed)
		const keys, each = 20, 50
		for i := range each {
			for k := range keys {
				r.append(pawl.Message{Topic: "a", Key: []byte{byte('a' + k)}, Body: []byte{byte(i)}})
			}
		}
		var lanes [keys]struct {
			busy atomic.Bool
			next int
		}
		var delays [keys * each]time.Duration
		var fail [keys * each]int
		for i := range delays {
			delays[i], fail[i] = time.Duration(random.IntN(20))*time.Millisecond, random.IntN(4)-1
		}
		c := one(13, func(_ context.Context, d *pawl.Delivery) error {
			l, n := &lanes[d.Key[0]-'a'], int(d.Body[0])
			if l.busy.Swap(true) {
				t.Errorf("lane %s is carried out twice at once", d.Key)
			}
			defer l.busy.Store(false)
			if n != l.next {
				t.Errorf("lane %s: %d is carried out, %d was next", d.Key, n, l.next)
			}
			i := int(d.Key[0]-'a')*each + n
			time.Sleep(delays[i])
			if d.Attempt <= fail[i] {
				return errBroken
			}
			l.next++
			return nil
		})
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		for i := range lanes {
			equal(r, lanes[i].next, each)
		}
	})
}

// A verdict other than ack gives the rest of the run back, untouched.
func TestRestOfRunIsGivenBack(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		var settled atomic.Int64
		r.store.settled = func(b store.Batch[store.Settlement]) { settled.Add(int64(len(b.Items))) }
		warm(r)
		r.append(keyed("a", "k", 5)...)
		r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
			seen.add("%s/%d", d.ID, d.Attempt)
			switch {
			case d.ID == "k-1" && d.Attempt == 1:
				return errBroken
			case d.ID == "k-3" && seen.count("k-3/1") == 1:
				return pawl.Release(time.Second, "not now")
			}
			return nil
		}))
		time.Sleep(time.Minute)
		got := slices.DeleteFunc(seen.list(), func(s string) bool { return s[0] == 'w' })
		equal(r, got, []string{"k-0/1", "k-1/1", "k-1/2", "k-2/1", "k-3/1", "k-3/1", "k-4/1"})
		equal(r, settled.Load(), int64(7+warmUp)) // none for what was given back with its run
	})
}

func (l *diary) count(what string) int {
	n := 0
	for _, s := range l.list() {
		if s == what {
			n++
		}
	}
	return n
}

// warm gives the dispatcher quick work first, so that it asks for runs.
func warm(r *rig) {
	msgs := numbered("a", warmUp)
	for i := range msgs {
		msgs[i].ID = "warm" + msgs[i].ID
	}
	r.append(msgs...)
}

const warmUp = 100

func TestHoldEndsTheRunAndClosesTheLane(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		began := time.Now()
		warm(r)
		r.append(keyed("a", "k", 3)...)
		r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.Key != nil {
				seen.add("%s at %v", d.ID, time.Since(began).Truncate(time.Second))
				d.Hold(10 * time.Second)
			}
			return nil
		}))
		time.Sleep(time.Minute)
		equal(r, seen.list(), []string{"k-0 at 0s", "k-1 at 10s", "k-2 at 20s"})
	})
}

// One urgent message behind 10,000 others is the very next one that is started,
// also when many of them are here already.
func TestUrgentIsNext(t *testing.T) {
	for name, blockAt := range map[string]int{"at the start": 0, "in full swing": 3000} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				gate := make(chan struct{})
				var seen diary
				var n int
				r.append(numbered("a", 10_000)...)
				r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
					seen.add("%s", d.ID)
					if n++; n == blockAt+1 {
						<-gate
					}
					return nil
				}))
				synctest.Wait()
				before := len(seen.list())
				r.append(pawl.Message{ID: "urgent", Topic: "a", Priority: pawl.MaxPriority})
				time.Sleep(100 * time.Millisecond)
				close(gate)
				time.Sleep(10 * time.Second)
				equal(r, before, blockAt+1)
				equal(r, seen.list()[before], "urgent")
				equal(r, len(seen.list()), 10_001)
			})
		})
	}
}

// With reserved slots, an urgent message does not even wait for a slot; and
// nothing else ever uses them.
func TestReservedSlots(t *testing.T) {
	bubble(t, func(r *rig) {
		var normal, most, claims atomic.Int64
		r.store.claim = func([]store.Want, store.Lease) error { claims.Add(1); return nil }
		var seen diary
		r.append(numbered("a", 1000)...)
		c := one(4, func(_ context.Context, d *pawl.Delivery) error {
			if d.Priority == pawl.MaxPriority {
				seen.add("%s", d.ID)
				return nil
			}
			atLeast(&most, normal.Add(1))
			time.Sleep(time.Hour)
			normal.Add(-1)
			return nil
		})
		c.Topics[0].Reserved = 1
		c.DrainTimeout = time.Second
		r.run(c)
		time.Sleep(10 * time.Second)
		if n := claims.Load(); n > 130 { // although what is given back wakes us
			r.Fatalf("%d claims in 10 s without a free slot", n)
		}
		began := time.Now()
		r.append(pawl.Message{ID: "urgent", Topic: "a", Priority: pawl.MaxPriority})
		for len(seen.list()) == 0 && time.Since(began) < time.Minute {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(began); took > 110*time.Millisecond {
			r.Fatalf("started after %v", took)
		}
		equal(r, most.Load(), 3)
	})
}

// Without any wake-up, reserved slots find their messages by looking now and then.
func TestReservedSlotsWithoutWakeUps(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		var claims atomic.Int64
		r.store.Store = deaf{r.mem}
		r.store.claim = func([]store.Want, store.Lease) error { claims.Add(1); return nil }
		r.append(numbered("a", 1000)...)
		c := one(4, func(_ context.Context, d *pawl.Delivery) error {
			if d.Priority == pawl.MaxPriority {
				seen.add("%s", d.ID)
				return nil
			}
			time.Sleep(time.Hour)
			return nil
		})
		c.Topics[0].Reserved = 1
		c.DrainTimeout = time.Second
		r.run(c)
		time.Sleep(10 * time.Second)
		claims.Store(0)
		r.append(pawl.Message{ID: "urgent", Topic: "a", Priority: pawl.MaxPriority})
		time.Sleep(300 * time.Millisecond)
		equal(r, seen.list(), []string{"urgent"})
		time.Sleep(10 * time.Second)
		if n := claims.Load(); n > 60 {
			r.Fatalf("%d claims in 10 s without a free slot", n)
		}
		equal(r, r.stats("a").Rescues, int64(0))
	})
}

// An urgent message overtakes the rest of a run, not only what waits.
func TestUrgentOvertakesARun(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		warm(r)
		r.append(keyed("a", "k", 40)...)
		r.append(keyed("a", "j", 40)...) // so that something waits, and a probe is worth it
		r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.Key == nil && d.Priority == 0 {
				return nil
			}
			seen.add("%s", d.ID)
			if d.ID == "k-2" {
				r.append(pawl.Message{Topic: "a", ID: "urgent", Priority: pawl.MaxPriority})
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		}))
		time.Sleep(10 * time.Second)
		equal(r, seen.list()[:6], []string{"k-0", "k-1", "k-2", "urgent", "k-3", "k-4"})
		equal(r, r.stats("a").Acked, int64(81+warmUp))
	})
}

// Slow handlers hold nothing beside what they are at; another process gets its
// share.
func TestSlowHandlersHoldNothingMore(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(numbered("a", 200)...)
		slow := func(context.Context, *pawl.Delivery) error { time.Sleep(time.Second); return nil }
		r.run(one(5, slow))
		d2, stop, done := r.start(one(5, slow))
		for range 19 {
			time.Sleep(time.Second)
			for _, d := range []*dispatch.Dispatcher{r.d, d2} {
				if s := d.Snapshot(); s.Held > 5+5 { // those in hand, and those just done
					r.Fatalf("%+v", s)
				}
			}
		}
		time.Sleep(5 * time.Second)
		a, b := r.d.Snapshot().Topics[0].Acked, d2.Snapshot().Topics[0].Acked
		if a+b != 200 || a < 90 || b < 90 {
			r.Fatalf("%d and %d of 200", a, b)
		}
		stop()
		equal(r, <-done, nil)
	})
}

// Handlers that turn slow give back what was claimed for quick ones.
func TestStaleWorkIsGivenBack(t *testing.T) {
	bubble(t, func(r *rig) {
		var n atomic.Int64
		r.append(numbered("a", 5000)...)
		c := one(2, func(context.Context, *pawl.Delivery) error {
			if n.Add(1) > 1000 {
				time.Sleep(time.Hour)
			}
			return nil
		})
		c.DrainTimeout = time.Second
		r.run(c)
		time.Sleep(500 * time.Millisecond)
		if held := r.d.Snapshot().Held; held < 100 {
			r.Fatalf("the test shows nothing: %d held", held)
		}
		time.Sleep(2 * time.Second)
		if s := r.d.Snapshot(); s.Held > 4 {
			r.Fatalf("%+v", s)
		}
		var claims atomic.Int64
		r.store.set(func() { r.store.claim = func([]store.Want, store.Lease) error { claims.Add(1); return nil } })
		time.Sleep(10 * time.Second)
		if n := claims.Load(); n > 50 {
			r.Fatalf("%d claims in 10 s without a free slot", n)
		}
		equal(r, r.stats("a").Rescues, int64(0))
	})
}

// A long run of work that turned slow is more than there should be; that is no
// reason to claim less than nothing.
func TestLongRunThatTurnsSlow(t *testing.T) {
	bubble(t, func(r *rig) {
		warm(r)
		r.append(keyed("a", "k", 200)...)
		r.append(keyed("a", "j", 2)...)
		c := one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.Key != nil {
				time.Sleep(5 * time.Millisecond)
			}
			return nil
		})
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		equal(r, r.stats("a").Acked, int64(202+warmUp))
	})
}

// Quick handlers get large claims and settle many at once.
func TestQuickHandlersWorkInBatches(t *testing.T) {
	bubble(t, func(r *rig) {
		var claims, settles atomic.Int64
		r.store.claim = func([]store.Want, store.Lease) error {
			claims.Add(1)
			time.Sleep(2 * time.Millisecond)
			return nil
		}
		r.store.settle = func(store.Batch[store.Settlement]) error {
			settles.Add(1)
			time.Sleep(2 * time.Millisecond)
			return nil
		}
		r.append(numbered("a", 10_000)...)
		c := one(32, func(context.Context, *pawl.Delivery) error { return nil })
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		if claims.Load() > 40 || settles.Load() > 40 {
			r.Fatalf("%d claims and %d settles for 10,000 messages", claims.Load(), settles.Load())
		}
	})
}

// A verdict that nothing follows is settled at once.
func TestSingleVerdictIsSettledAtOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		r.run(one(32, func(context.Context, *pawl.Delivery) error { return nil }))
		for range 20 { // the handler is known to be quick by now
			time.Sleep(time.Second)
			r.append(pawl.Message{Topic: "a"})
		}
		time.Sleep(time.Second)
		r.append(pawl.Message{ID: "x", Topic: "a"})
		synctest.Wait() // the clock stands still meanwhile
		r.gone("x")
	})
}

func TestBytesAreBounded(t *testing.T) {
	bubble(t, func(r *rig) {
		msgs := numbered("a", 100)
		for i := range msgs {
			msgs[i].Body = make([]byte, 1000)
		}
		msgs[50].Body = make([]byte, 20_000) // larger alone than the bound
		var most atomic.Int64
		c := one(64, func(context.Context, *pawl.Delivery) error {
			if s := r.d.Snapshot(); s.Held > 1 {
				atLeast(&most, int64(s.Bytes))
			}
			time.Sleep(time.Second)
			return nil
		})
		c.MaxBytes = 10_000
		r.run(c)
		r.append(msgs...) // not before: the handler uses r.d
		time.Sleep(time.Minute)
		if n := most.Load(); n > 10_000+20_000 || n < 5000 {
			r.Fatalf("held %d bytes", n)
		}
		equal(r, r.d.Snapshot().Topics[0].Acked, int64(100))
	})
}

func TestUntilEmptyWaitsForRetriesAndDelays(t *testing.T) {
	bubble(t, func(r *rig) {
		began := time.Now()
		r.append(pawl.Message{Topic: "a", ID: "late", Delay: time.Minute}, pawl.Message{Topic: "a", ID: "again"})
		c := one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.ID == "again" && d.Attempt < 4 {
				return errBroken
			}
			return nil
		})
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		r.gone("late")
		r.gone("again")
		if took := time.Since(began); took < time.Minute || took > time.Minute+3*time.Second {
			r.Fatalf("took %v", took)
		}
	})
}

func TestPauseAndResume(t *testing.T) {
	bubble(t, func(r *rig) {
		r.run(one(1, func(context.Context, *pawl.Delivery) error { return nil }))
		equal(r, r.d.Pause(r.Context(), "a", 0, "me", "a test"), nil)
		r.append(pawl.Message{Topic: "a", ID: "x"})
		time.Sleep(time.Minute)
		equal(r, r.get("x").State, store.Waiting)
		equal(r, r.d.Resume(r.Context(), "a"), nil)
		time.Sleep(10 * time.Millisecond)
		r.gone("x")
	})
}

package dispatch_test

import (
	"cmp"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// Idle, it polls less and less; a wake-up needs no poll.
func TestIdlePollsSlowDownAndWakeUpsDoNotWait(t *testing.T) {
	bubble(t, func(r *rig) {
		var claims atomic.Int64
		r.store.claim = func([]store.Want, store.Lease) error { claims.Add(1); return nil }
		r.run(one(4, func(context.Context, *pawl.Delivery) error { return nil }))
		time.Sleep(10 * time.Second)
		claims.Store(0)
		time.Sleep(10 * time.Second)
		if n := claims.Load(); n > 21 || n < 19 {
			r.Fatalf("%d claims in 10 s", n)
		}
		r.append(pawl.Message{ID: "x", Topic: "a"})
		synctest.Wait()
		r.gone("x")
	})
}

// A topic may be polled more or less often than the others, and that may change.
func TestPollMaxOfATopic(t *testing.T) {
	bubble(t, func(r *rig) {
		var claims atomic.Int64
		r.store.claim = func(wants []store.Want, _ store.Lease) error {
			for _, w := range wants {
				if w.Topic == "b" {
					claims.Add(1)
				}
			}
			return nil
		}
		h := pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error { return nil })
		r.run(dispatch.Config{Topics: []dispatch.Topic{{Name: "a", Handler: h},
			{Name: "b", Handler: h, PollMax: 2 * time.Second}}})
		count := func() int64 {
			time.Sleep(10 * time.Second)
			claims.Store(0)
			time.Sleep(100 * time.Second)
			return claims.Load()
		}
		for i, most := range []time.Duration{2 * time.Second, 100 * time.Millisecond, 10 * time.Second, 0} {
			if i > 0 {
				equal(r, r.d.SetPollMax("b", most), nil)
			}
			want := int64(100 * time.Second / cmp.Or(most, 500*time.Millisecond))
			if n := count(); n < want-1 || n > want+1 {
				r.Errorf("%d claims with a pause of %v at most; want %d", n, most, want)
			}
		}
		for topic, most := range map[string]time.Duration{"b": -1, "c": 1} {
			if r.d.SetPollMax(topic, most) == nil {
				r.Errorf("topic %s polls every %v", topic, most)
			}
		}
	})
}

// Without any wake-up, a retry is claimed when it is due, not at the next poll.
func TestOwnRetriesAreClaimedWhenDue(t *testing.T) {
	bubble(t, func(r *rig) {
		began := time.Now()
		r.store.Store = deaf{r.mem}
		var at diary
		c := one(1, func(context.Context, *pawl.Delivery) error {
			at.add("%v", time.Since(began).Truncate(10*time.Millisecond))
			return pawl.Throttled(errBroken, 3*time.Second)
		})
		c.PollMax = 10 * time.Second
		r.append(pawl.Message{Topic: "a"})
		r.run(c)
		time.Sleep(4 * time.Second)
		equal(r, at.list(), []string{"0s", "3s"})
	})
}

// deaf is a store without optional interfaces.
type deaf struct{ store.Store }

// What a handler emits, and what follows in a lane, needs neither a poll nor a
// wake-up by the store.
func TestOwnWorkIsFollowedUpAtOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		r.store.Store = deaf{r.mem}
		var seen diary
		began := time.Now()
		h := func(_ context.Context, d *pawl.Delivery) error {
			seen.add("%s", d.Topic)
			if d.Topic == "a" {
				d.Emit(pawl.Message{Topic: "b"})
			}
			time.Sleep(time.Second) // not quick: runs of one
			return nil
		}
		r.append(keyed("a", "k", 5)...)
		c := one(1, h)
		c.Topics = append(c.Topics, dispatch.Topic{Name: "b", Handler: pawl.HandlerFunc(h), Concurrency: 1})
		c.PollMin, c.PollMax = time.Minute, time.Minute
		r.run(c)
		for len(seen.list()) < 10 && time.Since(began) < time.Hour {
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(began); took > 6*time.Second {
			r.Fatalf("took %v", took)
		}
	})
}

// Many wake-ups are answered together.
func TestWakeUpsAreGathered(t *testing.T) {
	bubble(t, func(r *rig) {
		var claims atomic.Int64
		r.store.claim = func([]store.Want, store.Lease) error { claims.Add(1); return nil }
		r.run(one(4, func(context.Context, *pawl.Delivery) error { return nil }))
		time.Sleep(time.Second)
		claims.Store(0)
		for range 1000 {
			r.append(pawl.Message{Topic: "a"})
			time.Sleep(100 * time.Microsecond)
		}
		if n := claims.Load(); n > 110 || n < 50 {
			r.Fatalf("%d claims in 100 ms", n)
		}
		time.Sleep(5 * time.Millisecond)
		equal(r, r.stats("a").Acked, int64(1000))
	})
}

// A wake-up that comes while a claim is on its way is not lost.
func TestWakeUpDuringAClaim(t *testing.T) {
	bubble(t, func(r *rig) {
		var slow atomic.Bool
		r.store.Store = frozen{r.mem, &slow} // 950 ms between the store's answer and its arrival
		r.run(one(4, func(context.Context, *pawl.Delivery) error { return nil }))
		time.Sleep(time.Second)
		slow.Store(true)
		time.Sleep(500 * time.Millisecond) // the next poll is on its way now, and finds nothing
		r.append(pawl.Message{Topic: "a", ID: "x"})
		time.Sleep(750 * time.Millisecond)
		r.gone("x")
	})
}

// Topics whose leases differ are claimed in turns.
func TestTopicsWithOtherLeasesGetTheirTurn(t *testing.T) {
	bubble(t, func(r *rig) {
		h := pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error { return nil })
		var c dispatch.Config
		for i, name := range []string{"a", "b", "c"} {
			c.Topics = append(c.Topics, dispatch.Topic{Name: name, Handler: h, Concurrency: 1,
				Lease: time.Duration(i+1) * time.Minute})
			r.append(numbered(name, 10_000)...)
		}
		r.store.claim = func(wants []store.Want, l store.Lease) error {
			if len(wants) != 1 || l.For != time.Duration(wants[0].Topic[0]-'a'+1)*time.Minute {
				t.Errorf("%+v for %v", wants, l.For)
			}
			time.Sleep(time.Millisecond)
			return nil
		}
		r.run(c)
		time.Sleep(10 * time.Millisecond)
		for _, t := range r.d.Snapshot().Topics {
			if t.Acked < 1500 || t.Acked > 9000 {
				r.Errorf("%s: %d", t.Name, t.Acked)
			}
		}
	})
}

// A topic with endless quick work leaves the others what they can take.
func TestBusyTopicStarvesNoOther(t *testing.T) {
	bubble(t, func(r *rig) {
		r.store.claim = func([]store.Want, store.Lease) error { time.Sleep(20 * time.Millisecond); return nil }
		r.append(numbered("a", 80_000)...)
		c := one(32, func(context.Context, *pawl.Delivery) error { return nil })
		slow := pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error {
			time.Sleep(50 * time.Millisecond)
			return nil
		})
		for i, name := range []string{"b", "c"} { // one with the same lease, one with another
			r.append(numbered(name, 30)...)
			lease := dispatch.DefaultLease + time.Duration(i)*time.Second
			c.Topics = append(c.Topics, dispatch.Topic{Name: name, Handler: slow, Concurrency: 5, Lease: lease})
		}
		r.run(c)
		time.Sleep(660 * time.Millisecond) // 6 rounds of 50 ms, and of up to three claims of 20 ms
		s := r.d.Snapshot()
		if a := s.Topics[0].Acked; a < 30_000 || a == 80_000 {
			r.Fatalf("the test shows nothing: %d", a)
		}
		if s.Topics[1].Acked < 25 || s.Topics[2].Acked < 25 {
			r.Fatalf("%d and %d of 30", s.Topics[1].Acked, s.Topics[2].Acked)
		}
	})
}

// Two claims are on their way only while workers wait for a store that has more
// than one brings.
func TestClaimsAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		work    time.Duration
		backlog int
		most    int64
		within  time.Duration
	}{
		"quick work":    {0, 40_000, 2, 300 * time.Millisecond}, // 40 claims of 10 ms
		"slow work":     {time.Second, 200, 1, 30 * time.Second},
		"nothing to do": {0, 0, 1, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				var now, most atomic.Int64
				r.store.claim = func([]store.Want, store.Lease) error {
					atLeast(&most, now.Add(1))
					time.Sleep(10 * time.Millisecond)
					now.Add(-1)
					return nil
				}
				if c.backlog > 0 {
					r.append(numbered("a", c.backlog)...)
				}
				r.run(one(10, func(context.Context, *pawl.Delivery) error { time.Sleep(c.work); return nil }))
				time.Sleep(c.within)
				equal(r, most.Load(), c.most)
				equal(r, r.d.Snapshot().Topics[0].Acked, int64(c.backlog))
			})
		})
	}
}

// Before anything is measured, lanes are asked for one message at a time: it may
// take long.
func TestFirstRunsAreShort(t *testing.T) {
	bubble(t, func(r *rig) {
		var runs diary
		r.store.claim = func(wants []store.Want, _ store.Lease) error { runs.add("%d", wants[0].Run); return nil }
		warm(r)
		r.run(one(1, func(context.Context, *pawl.Delivery) error { return nil }))
		time.Sleep(time.Second)
		got := runs.list()
		equal(r, []string{got[0], got[len(got)-1]}, []string{"1", "64"})
	})
}

// What is started next is what the topic's ageing says, also here.
func TestRankUsesTheTopicsAgeing(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		c := one(1, func(_ context.Context, d *pawl.Delivery) error { seen.add("%s", d.ID); return nil })
		c.Topics[0].Settings.Ageing = time.Second
		_, err := r.mem.Declare(context.Background(), store.Declaration{Name: "a", Ageing: time.Second})
		equal(r, err, nil)
		warm(r)
		r.append(pawl.Message{Topic: "a", ID: "old"})
		time.Sleep(time.Minute)
		r.append(pawl.Message{Topic: "a", ID: "ten points more", Priority: 10}) // worth ten seconds
		r.run(c)
		time.Sleep(time.Second)
		equal(r, seen.list()[warmUp:], []string{"old", "ten points more"})
	})
}

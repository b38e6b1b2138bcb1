package enginetest

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/statesync"
	"github.com/pawl-dev/pawl/store"
)

var timeScenarios = []Scenario{
	{Text: "A message that takes longer than its lease is carried out once.",
		Name: "LongWorkKeepsItsLease", Needs: needs(store.CanDeadline), Test: func(r *Rig) {
			const lease = 3 * mortal // a busy machine may stand still for longer than a second
			var n atomic.Int64
			r.append(numbered("a", 5)...)
			r.append(inLanes("a", 1, 2)...)
			r.finish(topic("a", lease, 8, func(ctx context.Context, d *pawl.Delivery) error {
				n.Add(1)
				select {
				case <-time.After(2 * lease):
					return nil
				case <-ctx.Done():
					r.Errorf("%s: %v", d.ID, context.Cause(ctx))
					return ctx.Err()
				}
			}))
			r.unrescued("a", 7)
			r.check(n.Load() == 7, "%d deliveries", n.Load())
		}},
	{Text: "The context of a handler that hangs ends at the deadline; its message is delivered again, and its late ack is ignored.",
		Name: "StuckIsTakenBack", Needs: needs(store.CanDeadline), Test: func(r *Rig) {
			release, second := make(chan struct{}), make(chan struct{})
			var calls atomic.Int64
			var cause atomic.Value
			r.append(pawl.Message{ID: "stuck", Topic: "a"})
			stuck := topic("a", calm, 1, func(ctx context.Context, d *pawl.Delivery) error {
				if d.ID != "stuck" {
					return nil
				}
				if calls.Add(1) > 1 {
					close(second)
					return nil
				}
				<-ctx.Done()
				cause.Store(context.Cause(ctx))
				<-release // long after its context has ended
				return nil
			})
			stuck.Settings.Deadline = 3 * time.Second
			e := r.start(r.Store, stuck)
			r.until("the handler is given up", func() bool { return e.Snapshot().Topics[0].Zombies == 1 })
			r.append(numbered("a", 10)...)
			r.until("the slot is free again", func() bool { return r.stats()["a"].Acked == 10 })
			r.check(cause.Load() == pawl.ErrDeadline, "cause %v", cause.Load())
			r.check(calls.Load() == 1, "the lane is not closed while the handler has not returned")
			close(release)
			<-second
			r.until("it is done", func() bool { return r.stats()["a"].Acked == 11 })
			s := r.balanced("a", 11, 0)
			r.check(s.Rescues == 0 && s.Retried == 1, "%d rescues, %d retries: it was not settled in time", s.Rescues,
				s.Retried)
		}},
	{Text: "Delayed messages and retries come when they are due, not before.",
		Name: "DelaysAndRetriesAreWaited", Needs: needs(store.CanDelay), Test: func(r *Rig) {
			const delay = 400 * time.Millisecond
			began := time.Now()
			r.append(pawl.Message{ID: "late", Topic: "a", Delay: delay}, pawl.Message{ID: "again", Topic: "a"})
			var failedAt atomic.Int64
			r.finish(topic("a", calm, 2, func(_ context.Context, d *pawl.Delivery) error {
				now := time.Since(began)
				switch {
				case d.ID == "late" && now < delay-2*time.Millisecond:
					r.Errorf("delivered after %v, delayed by %v", now, delay)
				case d.ID == "again" && d.Throttles == 0:
					failedAt.Store(int64(now))
					return pawl.Throttled(errBroken, delay)
				case d.ID == "again" && now-time.Duration(failedAt.Load()) < delay-2*time.Millisecond:
					r.Errorf("again after %v, asked for %v", now-time.Duration(failedAt.Load()), delay)
				}
				return nil
			}))
			r.balanced("a", 2, 0)
		}},
	{Text: "A dispatcher that runs soon follows what an operator sets about retries.",
		Name: "RetriesAreSet", Needs: needs(store.CanState, store.CanDeadLetters), Test: func(r *Rig) {
			kept, err := statesync.New[policy.Retries](r.Store, policy.RetriesTopic, statesync.Config{})
			r.must(err)
			own, err := policy.NewMatrix(nil)
			r.must(err)
			of := topic("a", calm, 2, func(context.Context, *pawl.Delivery) error { return errBroken })
			of.Retries = policy.Retries{Attempts: policy.MaxAttempts, Base: time.Millisecond, Max: 20 * time.Millisecond}
			r.startWith(r.Store, dispatch.Config{Policy: own, Topics: []dispatch.Topic{of}})
			r.append(pawl.Message{ID: "x", Topic: "a"})
			r.until("it is retried", func() bool { return r.stats()["a"].Retried > 20 })
			few := policy.Retries{Attempts: 3}
			if _, err := kept.Put(context.Background(), "a", few, statesync.AnyVersion); err != nil {
				r.Fatal(err)
			}
			r.until("it is a dead letter", func() bool { return r.stats()["a"].Dead == 1 })
			r.append(pawl.Message{ID: "y", Topic: "a"})
			r.until("the next one is, too", func() bool { return r.stats()["a"].Dead == 2 })
			y := r.dead()["y"]
			r.check(y.Attempts == 3, "it was tried %d times", y.Attempts)
		}},
	{Text: "Dispatchers over one store keep a rate together, for all and by key.",
		Name: "RateIsShared", Needs: needs(store.CanState), Test: func(r *Rig) {
			shared, _ := store.As[store.Shared](r.Store)
			const rate, n, burst = 20, 25, 2
			var begun atomic.Int64
			began := time.Now()
			for range 2 {
				var limits []*dispatch.Limiter
				for _, by := range []func(*pawl.Delivery) string{nil, func(d *pawl.Delivery) string { return d.Topic }} {
					c := dispatch.LimitConfig{Name: "shared", By: by, Rate: rate, Shared: shared}
					l, err := dispatch.NewLimiter(c)
					r.must(err)
					limits = append(limits, l)
				}
				of := topic("a", calm, 8, func(context.Context, *pawl.Delivery) error { begun.Add(1); return nil })
				of.Limits = limits
				r.start(r.Store, of)
			}
			for i := range n {
				r.append(pawl.Message{ID: fmt.Sprint(i), Topic: "a"})
			}
			r.until("all are carried out", func() bool { return begun.Load() >= n })
			took := time.Since(began)
			r.check(took >= (n-2*burst)*time.Second/rate, "%d messages at %d a second took %v", n, rate, took)
		}},
	{Text: "An idle dispatcher soon starts an appended message.",
		Name: "PickupIsQuick", Test: func(r *Rig) { pickup(r, r.Store) }},
}

// pickup makes sure that an idle dispatcher on s soon starts what is appended to the
// scenario's store.
func pickup(r *Rig, s store.Store) {
	started := make(chan time.Time, 1)
	r.start(s, topic("a", calm, 4,
		func(context.Context, *pawl.Delivery) error {
			started <- time.Now()
			return nil
		}))
	time.Sleep(time.Second) // idle for long enough to poll seldom
	var worst time.Duration
	for range 10 {
		began := time.Now()
		r.append(pawl.Message{Topic: "a"})
		worst = max(worst, (<-started).Sub(began))
		time.Sleep(20 * time.Millisecond)
	}
	r.Logf("slowest pickup of ten: %v", worst)
	r.check(worst <= 5*time.Second, "a pickup took %v", worst)
}

package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// Handlers may return at the very moment at which they are given up: each
// message is then decided about and settled once, by the one or the other.
func TestReturnWhileGivenUp(t *testing.T) {
	bubble(t, func(r *rig) {
		const n = 200
		r.append(numbered("a", n)...)
		c := one(n, func(ctx context.Context, d *pawl.Delivery) error {
			if d.Attempt == 1 {
				time.Sleep(9 * time.Second) // 8 s is the deadline, 10 s the store's
				return errors.New("late")
			}
			return nil
		})
		var w witness
		c.Observer = &w
		c.Topics[0].Settings.Deadline = 10 * time.Second
		c.MaxZombies = n
		r.run(c)
		time.Sleep(10 * time.Minute)
		s := r.stats("a")
		equal(r, []int64{s.Acked, s.Retried, s.Rescues}, []int64{n, n, 0})
		equal(r, r.d.Snapshot().Topics[0].Zombies, 0)
		decided := 0
		w.mu.Lock()
		defer w.mu.Unlock()
		for what, times := range w.n {
			if strings.HasPrefix(what, "decided") {
				decided += times
			}
		}
		equal(r, decided, n)
	})
}

// A failure that is ignored ends one message, not its run: the others of it are
// given back, for when nothing of this call can run any more.
func TestIgnoredFailureOfAZombieLeavesNothingBehind(t *testing.T) {
	bubble(t, func(r *rig) {
		stuck := make(chan struct{})
		warm(r)
		r.append(keyed("a", "k", 3)...)
		c := one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.ID == "k-0" {
				<-stuck
			}
			return nil
		})
		c.Policy = policy.Func(func(policy.Attempt) policy.Decision {
			return policy.Decision{Action: policy.Ignore, Degrade: policy.CarryOn}
		})
		c.Topics[0].Settings.Deadline = 10 * time.Second
		r.run(c)
		time.Sleep(20 * time.Second)
		equal(r, r.d.Snapshot().Held, 0)
		close(stuck)
		time.Sleep(10 * time.Minute)
		r.gone("k-1")
		r.gone("k-2")
		r.stop()
		equal(r, r.ended(), nil)
	})
}

// The lease of a given-up call may turn out to be lost while it is settled, and its
// handler may have returned before that: the lane is open then.
func TestLaneOfAZombieThatReturnedIsOpen(t *testing.T) {
	bubble(t, func(r *rig) {
		stuck, lost := make(chan struct{}), make(chan struct{})
		var decided atomic.Bool
		var calls atomic.Int64
		r.append(keyed("a", "k", 1)...)
		c := one(1, func(context.Context, *pawl.Delivery) error {
			if calls.Add(1) == 1 {
				<-stuck
			}
			return nil
		})
		r.store.extend = func(tokens []pawl.Token) ([]pawl.Token, error) {
			if decided.Load() {
				return nil, nil
			}
			<-lost
			return tokens, nil
		}
		c.Policy = policy.Func(func(policy.Attempt) policy.Decision {
			if decided.CompareAndSwap(false, true) {
				close(stuck)
				time.Sleep(time.Millisecond)
				close(lost)
				time.Sleep(time.Millisecond)
			}
			return policy.Decision{Action: policy.Retry, Delay: time.Second}
		})
		c.Topics[0].Lease = 10 * time.Second
		c.Topics[0].Settings.Deadline = 10 * time.Second
		r.run(c)
		time.Sleep(time.Minute)
		r.gone("k-0")
		equal(r, calls.Load(), int64(2))
	})
}

// A handler that was given up may still write to its delivery, also while the
// settlement is taken or refused, and told to an observer.
func TestZombieKeepsItsDelivery(t *testing.T) {
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprint("refused=", refused), func(t *testing.T) { zombieKeepsItsDelivery(t, refused) })
	}
}

func zombieKeepsItsDelivery(t *testing.T, refused bool) {
	bubble(t, func(r *rig) {
		stuck, returned := make(chan struct{}), make(chan struct{})
		var calls atomic.Int64
		r.append(pawl.Message{Topic: "a", ID: "x", Key: []byte("k"), Body: []byte("b"),
			Headers: map[string]string{"a": "b"}})
		var w witness
		c := dispatch.Config{Topics: []dispatch.Topic{{Name: "a", Concurrency: 1}}, Observer: &w}
		if refused {
			r.store.stale("x")
		}
		c.Topics[0].Batch = pawl.BatchHandlerFunc(func(_ context.Context, ds []*pawl.Delivery) []error {
			if calls.Add(1) > 1 {
				return make([]error, len(ds))
			}
			defer close(returned)
			for {
				select {
				case <-stuck:
					return make([]error, len(ds))
				case <-time.After(time.Millisecond):
					ds[0].Body, ds[0].Headers["seen"], ds[0].Key = []byte("decoded"), "yes", []byte("other")
					ds[0].Emit(pawl.Message{Topic: "b"})
					ds[0].Hold(0)
				}
			}
		})
		c.Topics[0].Settings.Deadline = 10 * time.Second
		r.run(c)
		time.Sleep(30 * time.Second)
		close(stuck)
		<-returned
	})
}

// The failure of a handler that was given up has the trace of its message.
func TestZombieIsTraced(t *testing.T) {
	bubble(t, func(r *rig) {
		var s sink
		warm(r)
		r.append(pawl.Message{Topic: "a", ID: "x", Key: []byte("k"), Headers: map[string]string{"traceparent": trace}})
		c := one(1, func(_ context.Context, d *pawl.Delivery) error {
			time.Sleep(10 * time.Millisecond)
			if d.ID == "x" && d.Attempt == 1 {
				time.Sleep(time.Minute)
			}
			return nil
		})
		c.Events = &s
		c.Topics[0].Settings.Deadline = 10 * time.Second
		r.run(c)
		time.Sleep(10 * time.Minute)
		if seen := s.list("x"); strings.Count(seen, "traced") != 4 || !strings.Contains(seen, "Failed 1") {
			r.Errorf("events are %s", seen)
		}
	})
}

// When a call is halved because one item spoils it, what follows in a lane waits
// for both halves.
func TestHalvedSettleKeepsTheLane(t *testing.T) {
	bubble(t, func(r *rig) {
		var spoilt atomic.Bool
		var calls, halves atomic.Int64
		r.store.settle = func(b store.Batch[store.Settlement]) error {
			if b.Items[0].ID[0] != 'k' {
				return nil
			}
			if calls.Add(1) > 1 {
				r.Error("two calls for one lane")
			}
			defer calls.Add(-1)
			switch {
			case len(b.Items) > 1 && spoilt.CompareAndSwap(false, true):
				time.Sleep(50 * time.Millisecond)
				return &store.Error{Op: "settle", Code: store.ErrTooLarge}
			case spoilt.Load() && halves.Add(1) == 2:
				time.Sleep(200 * time.Millisecond)
			}
			return nil
		}
		warm(r)
		r.append(keyed("a", "k", 16)...)
		r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.Key != nil {
				time.Sleep(300 * time.Microsecond)
			}
			return nil
		}))
		time.Sleep(2 * time.Minute)
		if halves.Load() < 2 {
			r.Error("the test shows nothing: no call was halved")
		}
		equal(r, r.d.Snapshot().Topics[0].Lost, int64(0))
		equal(r, r.stats("a").Acked, int64(16+warmUp))
	})
}

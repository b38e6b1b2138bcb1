package dispatch_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

var errGone = &store.Error{Op: "test", Code: store.ErrUnavailable}

// A verdict that comes at the moment when the lease runs out is not trusted,
// whoever notices first.
func TestVerdictAtTheEndOfTheLease(t *testing.T) {
	bubble(t, func(r *rig) {
		var settled atomic.Int64
		r.store.extend = func([]pawl.Token) ([]pawl.Token, error) { return nil, errGone }
		r.store.settled = func(b store.Batch[store.Settlement]) { settled.Add(int64(len(b.Items))) }
		r.append(numbered("a", 50)...)
		c := one(50, func(_ context.Context, d *pawl.Delivery) error {
			if d.Rescues == 0 {
				time.Sleep(29 * time.Second)
			}
			return nil
		})
		r.run(c)
		time.Sleep(29500 * time.Millisecond)
		equal(r, settled.Load(), int64(0))
		equal(r, r.d.Snapshot().Topics[0].Lost, int64(50))
	})
}

// The policy is not asked about what cannot be settled any more.
func TestLostIsNoFailure(t *testing.T) {
	bubble(t, func(r *rig) {
		var asked atomic.Int64
		r.store.extend = func(tokens []pawl.Token) ([]pawl.Token, error) { return tokens, nil }
		r.append(pawl.Message{Topic: "a", ID: "x"})
		c := one(1, func(ctx context.Context, d *pawl.Delivery) error {
			<-ctx.Done()
			return ctx.Err()
		})
		c.Policy = policy.Func(func(policy.Attempt) policy.Decision { asked.Add(1); return policy.Decision{} })
		r.run(c)
		time.Sleep(15 * time.Second)
		equal(r, r.d.Snapshot().Topics[0].Lost, int64(1))
		equal(r, asked.Load(), int64(0))
	})
}

// A heartbeat that fails is tried again well before the lease is over.
func TestHeartbeatIsTriedAgain(t *testing.T) {
	bubble(t, func(r *rig) {
		began := time.Now()
		r.store.extend = func([]pawl.Token) ([]pawl.Token, error) {
			if time.Since(began) < 27*time.Second {
				return nil, errGone
			}
			return nil, nil
		}
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(one(1, func(ctx context.Context, d *pawl.Delivery) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Minute):
				return nil
			}
		}))
		time.Sleep(70 * time.Second)
		r.gone("x")
		equal(r, r.stats("a").Rescues, int64(0))
	})
}

// While a handler that lost its lease is on its way out, nobody else here
// carries out its lane.
func TestLaneOfALostLeaseIsClosed(t *testing.T) {
	bubble(t, func(r *rig) {
		var busy atomic.Bool
		var calls atomic.Int64
		lost := false
		r.store.extend = func(tokens []pawl.Token) ([]pawl.Token, error) {
			if lost {
				return nil, nil
			}
			lost = true
			time.AfterFunc(100*time.Millisecond, func() { // it is there again
				st := store.Settlement{Token: tokens[0], ID: "x", Verdict: store.Release}
				if _, err := r.mem.Settle(context.Background(), store.NewBatch(st)); err != nil {
					t.Error(err)
				}
			})
			return tokens, nil
		}
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(one(4, func(ctx context.Context, d *pawl.Delivery) error {
			if busy.Swap(true) {
				t.Error("twice at once")
			}
			defer busy.Store(false)
			if calls.Add(1) == 1 {
				<-ctx.Done()
				time.Sleep(500 * time.Millisecond)
			}
			return nil
		}))
		time.Sleep(20 * time.Second)
		equal(r, calls.Load(), int64(2))
		r.gone("x")
	})
}

// What waits here when its lease runs out is forgotten.
func TestWaitingWorkIsForgottenWithItsLease(t *testing.T) {
	bubble(t, func(r *rig) {
		var n atomic.Int64
		r.store.extend = func([]pawl.Token) ([]pawl.Token, error) { return nil, errGone }
		r.append(numbered("a", 3000)...)
		c := one(1, func(ctx context.Context, d *pawl.Delivery) error {
			if n.Add(1) == 100 {
				<-ctx.Done()
				time.Sleep(time.Second)
			}
			return nil
		})
		c.Topics[0].Lease = 500 * time.Millisecond
		var w witness
		c.Observer = &w
		r.run(c)
		time.Sleep(100 * time.Millisecond)
		if n := r.d.Snapshot().Topics[0].Waiting; n < 500 {
			r.Fatalf("the test shows nothing: %d wait", n)
		}
		lost := r.d.Snapshot().Topics[0].Lost
		r.store.set(func() { r.store.claim = func([]store.Want, store.Lease) error { return errGone } })
		time.Sleep(360 * time.Millisecond)
		s := r.d.Snapshot().Topics[0]
		if s.Waiting != 0 || s.Lost-lost < 500 {
			r.Fatalf("%+v", s)
		}
		time.Sleep(2 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if told := int64(w.n["refused a lease_lost"]); told < 500 {
			r.Errorf("the observer was told of %d lost leases, there are %d", told, s.Lost)
		}
	})
}

// A run whose turn would come late in its deadline is claimed anew instead, with
// all the time that the topic grants.
func TestLateWorkIsGivenBackInsteadOfFailed(t *testing.T) {
	bubble(t, func(r *rig) {
		warm(r)
		r.append(keyed("a", "k", 20)...)
		c := one(1, func(ctx context.Context, d *pawl.Delivery) error {
			if d.Key == nil {
				return nil
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(25 * time.Second):
				return nil
			}
		})
		c.Topics[0].Settings.Deadline = time.Minute
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		s := r.stats("a")
		equal(r, []int64{s.Acked, s.Retried, s.Rescues}, []int64{20 + warmUp, 0, 0})
	})
}

// The context of a batch ends with the first deadline in it.
func TestBatchHasTheFirstDeadline(t *testing.T) {
	bubble(t, func(r *rig) {
		began := time.Now()
		var calls atomic.Int64
		var seen diary
		r.append(numbered("a", 300)...)
		r.run(batched(1, 100, func(ctx context.Context, ds []*pawl.Delivery) []error {
			if calls.Add(1) == 2 { // bulk was claimed ahead; something urgent comes
				time.Sleep(300 * time.Millisecond)
				r.append(pawl.Message{Topic: "a", ID: "urgent", Priority: pawl.MaxPriority})
				time.Sleep(500 * time.Millisecond)
			}
			if ds[0].ID == "urgent" {
				at, _ := ctx.Deadline()
				seen.add("%d, %v", len(ds), at.Sub(began).Truncate(10*time.Millisecond))
			}
			return make([]error, len(ds))
		}))
		time.Sleep(10 * time.Second)
		equal(r, seen.list(), []string{"100, 4m55s"})
	})
}

// A batch is told that a lease is lost only when all are; and what is lost is
// not settled.
func TestBatchLosesLeasesOneByOne(t *testing.T) {
	bubble(t, func(r *rig) {
		var settled diary
		var beats atomic.Int64
		r.store.settled = func(b store.Batch[store.Settlement]) {
			for _, it := range b.Items {
				settled.add("%s %v", it.ID, it.Verdict)
			}
		}
		r.store.extend = func(tokens []pawl.Token) ([]pawl.Token, error) {
			if beats.Add(1) == 1 {
				return tokens[:1], nil
			}
			return nil, nil
		}
		r.append(numbered("a", 3)...)
		r.run(batched(1, 10, func(ctx context.Context, ds []*pawl.Delivery) []error {
			if ds[0].Rescues > 0 {
				return make([]error, len(ds))
			}
			select {
			case <-ctx.Done():
				t.Error(context.Cause(ctx))
			case <-time.After(20 * time.Second):
			}
			return make([]error, len(ds))
		}))
		time.Sleep(25 * time.Second)
		equal(r, settled.list(), []string{"a-1 ack", "a-2 ack"})
		time.Sleep(time.Minute)
		equal(r, r.stats("a").Acked, int64(3))
	})
}

// A message that is tried alone and whose lease is lost leaves the way free.
func TestLostWhileAlone(t *testing.T) {
	bubble(t, func(r *rig) {
		r.store.extend = func(tokens []pawl.Token) ([]pawl.Token, error) { return tokens, nil }
		r.rescued(4, pawl.Message{Topic: "a", ID: "s"})
		r.run(one(2, func(ctx context.Context, d *pawl.Delivery) error {
			if d.Rescues > 0 {
				time.Sleep(20 * time.Second)
			}
			return nil
		}))
		time.Sleep(2 * time.Second)
		equal(r, r.get("s").State, store.Leased)
		r.append(numbered("a", 10)...)
		time.Sleep(3 * time.Second)
		equal(r, r.stats("a").Acked, int64(0))
		time.Sleep(8 * time.Second) // lost after 10, abandoned after 11
		equal(r, r.stats("a").Acked, int64(10))
	})
}

// A slow message does not keep the others alive that were claimed with it.
func TestSlowMessageHoldsNoOthersMemory(t *testing.T) {
	bubble(t, func(r *rig) {
		release := make(chan struct{})
		defer close(release)
		body := func() weak.Pointer[byte] {
			b := make([]byte, 1<<20)
			r.append(pawl.Message{Topic: "a", ID: "slow"}, pawl.Message{Topic: "a", ID: "quick", Body: b})
			return weak.Make(&b[0])
		}()
		r.run(one(2, func(_ context.Context, d *pawl.Delivery) error {
			if d.ID == "slow" {
				<-release
			}
			return nil
		}))
		time.Sleep(time.Second)
		r.gone("quick")
		for range 5 {
			runtime.GC()
		}
		if body.Value() != nil {
			t.Error("the body of an acked message is still there")
		}
	})
}

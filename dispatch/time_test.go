package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// What takes longer than its lease keeps it, whether it runs or its settlement
// does not come through.
func TestHeartbeatKeepsLeases(t *testing.T) {
	bubble(t, func(r *rig) {
		var calls atomic.Int64
		r.append(numbered("a", 3)...)
		r.store.extend = func(tokens []pawl.Token) ([]pawl.Token, error) { calls.Add(1); return nil, nil }
		r.run(one(3, func(context.Context, *pawl.Delivery) error { time.Sleep(245 * time.Second); return nil }))
		time.Sleep(246 * time.Second)
		equal(r, r.stats("a").Acked, int64(3))
		equal(r, r.stats("a").Rescues, int64(0))
		equal(r, calls.Load(), int64(24)) // every 10 s, for all of them together
	})
}

func TestLostLeaseEndsTheHandler(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		began := time.Now()
		var settled atomic.Int64
		r.store.settled = func(b store.Batch[store.Settlement]) { settled.Add(int64(len(b.Items))) }
		r.store.extend = func(tokens []pawl.Token) ([]pawl.Token, error) { return tokens[:1], nil }
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(one(1, func(ctx context.Context, d *pawl.Delivery) error {
			<-ctx.Done()
			seen.add("%v at %v", context.Cause(ctx), time.Since(began))
			return nil // an ack that is not trusted
		}))
		time.Sleep(15 * time.Second)
		equal(r, seen.list(), []string{"lease lost at 10s"})
		equal(r, settled.Load(), int64(0))
		equal(r, r.d.Snapshot().Topics[0].Lost, int64(1))
		equal(r, r.d.Snapshot().Held, 0)
	})
}

// A store that does not answer cannot say that the lease is over: the local
// clock does.
func TestFencesItselfWhenTheStoreIsGone(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		began := time.Now()
		var down atomic.Bool
		gone := &store.Error{Op: "test", Code: store.ErrUnavailable}
		unless := func() error {
			if down.Load() {
				return gone
			}
			return nil
		}
		r.store.extend = func([]pawl.Token) ([]pawl.Token, error) { return nil, unless() }
		r.store.claim = func([]store.Want, store.Lease) error { return unless() }
		r.store.settle = func(store.Batch[store.Settlement]) error { return unless() }
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(one(1, func(ctx context.Context, d *pawl.Delivery) error {
			if d.Rescues > 0 {
				return nil
			}
			down.Store(true)
			<-ctx.Done()
			seen.add("%v at %v", context.Cause(ctx), time.Since(began))
			return nil
		}))
		time.Sleep(45 * time.Second)
		equal(r, seen.list(), []string{"lease lost at 29s"}) // a second before the store's
		if err := r.d.Ready(); err == nil || !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("ready: %v", err)
		}
		down.Store(false)
		time.Sleep(10 * time.Second)
		r.gone("x")
		equal(r, r.d.Ready(), nil)
		equal(r, r.stats("a").Rescues, int64(1))
	})
}

// TestALostStoreIsUnreadyAtOnce: no later call can succeed, so there is nothing to wait for.
func TestALostStoreIsUnreadyAtOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		var lost atomic.Bool
		r.store.claim = func([]store.Want, store.Lease) error {
			if lost.Load() {
				return &store.Error{Op: "test", Code: store.ErrLost}
			}
			return nil
		}
		r.run(one(1, func(context.Context, *pawl.Delivery) error { return nil }))
		time.Sleep(10 * time.Second)
		equal(r, r.d.Ready(), nil)
		lost.Store(true)
		time.Sleep(1500 * time.Millisecond) // of idle looks
		if err := r.d.Ready(); !errors.Is(err, store.ErrLost) {
			t.Fatalf("ready: %v", err)
		}
	})
}

// What came so late that its lease ran out is not started.
func TestNothingIsStartedWithoutALease(t *testing.T) {
	bubble(t, func(r *rig) {
		var calls atomic.Int64
		var slow atomic.Bool
		c := one(1, func(_ context.Context, d *pawl.Delivery) error {
			calls.Add(1)
			return nil
		})
		c.Topics[0].Lease = time.Second
		// The process stands still between the claim and its answer; and a
		// heartbeat, which might still be in time, does not come through.
		r.store.extend = func([]pawl.Token) ([]pawl.Token, error) {
			if slow.Load() || calls.Load() == 0 {
				return nil, &store.Error{Op: "extend", Code: store.ErrUnavailable}
			}
			return nil, nil
		}
		r.store.Store = frozen{r.mem, &slow}
		r.append(pawl.Message{Topic: "a", ID: "x"})
		slow.Store(true)
		r.run(c)
		time.Sleep(990 * time.Millisecond)
		equal(r, r.d.Snapshot().Topics[0].Lost, int64(1))
		equal(r, calls.Load(), int64(0))
		time.Sleep(time.Minute)
		equal(r, calls.Load(), int64(1))
		equal(r, r.stats("a").Rescues, int64(1))
	})
}

// frozen answers the first claim late.
type frozen struct {
	store.Store
	slow *atomic.Bool
}

func (f frozen) Unwrap() store.Store { return f.Store }

func (f frozen) Claim(ctx context.Context, wants []store.Want, l store.Lease) ([]pawl.Delivery, error) {
	ds, err := f.Store.Claim(context.WithoutCancel(ctx), wants, l)
	if f.slow.Swap(false) {
		time.Sleep(950 * time.Millisecond)
	}
	return ds, err
}

func TestDeadlineEndsTheHandlerInTimeToSettle(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		began := time.Now()
		r.append(pawl.Message{Topic: "a", ID: "x"})
		c := one(1, func(ctx context.Context, d *pawl.Delivery) error {
			if d.Attempt > 1 {
				return nil
			}
			at, _ := ctx.Deadline()
			<-ctx.Done()
			seen.add("%v at %v, announced for %v", context.Cause(ctx), time.Since(began), at.Sub(began))
			return ctx.Err()
		})
		c.Topics[0].Settings.Deadline = time.Minute
		r.run(c)
		time.Sleep(58 * time.Second)
		equal(r, seen.list(), []string{"deadline passed at 55s, announced for 55s"})
		time.Sleep(time.Minute)
		r.gone("x")
		s := r.stats("a")
		equal(r, []int64{s.Retried, s.Rescues}, []int64{1, 0})
	})
}

// A handler that ignores its context becomes a zombie: its message is settled
// as failed, its slot goes to somebody else, its lane stays closed.
func TestZombie(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		began := time.Now()
		stuck := make(chan struct{})
		r.append(keyed("a", "k", 2)...)
		c := one(1, func(ctx context.Context, d *pawl.Delivery) error {
			seen.add("%s/%d at %v", d.ID, d.Attempt, time.Since(began).Truncate(time.Second))
			if d.ID == "k-0" && d.Attempt == 1 {
				<-stuck
				return nil // too late: it does not count
			}
			return nil
		})
		c.Topics[0].Settings.Deadline = 10 * time.Second
		c.MaxZombies = 1
		r.run(c)
		time.Sleep(9500 * time.Millisecond)
		rec := r.get("k-0")
		equal(r, []any{rec.Attempts, rec.Rescues, rec.History[0].Kind}, []any{1, 0, pawl.KindDeadline})
		equal(r, r.d.Snapshot().Topics[0].Zombies, 1)
		equal(r, r.d.Snapshot().Topics[0].Running, 0)
		equal(r, r.d.Ready(), nil) // one is within the bound
		r.append(pawl.Message{Topic: "a", ID: "other"})
		time.Sleep(100 * time.Second)
		equal(r, seen.list(), []string{"k-0/1 at 0s", "other/1 at 9s"})
		close(stuck)
		time.Sleep(10 * time.Second)
		equal(r, seen.list()[2:4], []string{"k-0/2 at 1m49s", "k-1/1 at 1m49s"})
		equal(r, r.d.Snapshot().Topics[0].Zombies, 0)
		r.gone("k-0")
		r.gone("k-1")
		equal(r, r.stats("a").Rescues, int64(0))
	})
}

func TestTooManyZombiesAreNotReady(t *testing.T) {
	bubble(t, func(r *rig) {
		stuck := make(chan struct{})
		defer close(stuck)
		r.append(numbered("a", 3)...)
		c := one(1, func(ctx context.Context, d *pawl.Delivery) error { <-stuck; return nil })
		c.Topics[0].Settings.Deadline = time.Second
		c.MaxZombies = 2
		c.DrainTimeout = time.Second
		r.run(c)
		time.Sleep(1900 * time.Millisecond)
		equal(r, r.d.Ready(), nil)
		time.Sleep(time.Second)
		if err := r.d.Ready(); err == nil || !strings.HasSuffix(err.Error(), "their deadline: 3; at most 2 may") {
			t.Fatal(err)
		}
	})
}

// A handler that lost its lease and does not return gives up its slot as well,
// and its lane is closed until it does.
func TestLostLeaseWithoutReturn(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		stuck := make(chan struct{})
		began := time.Now()
		var lose atomic.Bool
		lose.Store(true)
		r.store.extend = func(tokens []pawl.Token) ([]pawl.Token, error) {
			if lose.Swap(false) {
				return tokens, nil
			}
			return nil, nil
		}
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(one(1, func(ctx context.Context, d *pawl.Delivery) error {
			seen.add("%s at %v", d.ID, time.Since(began).Truncate(time.Second))
			if d.Rescues == 0 && d.ID == "x" {
				<-stuck
			}
			return nil
		}))
		time.Sleep(12 * time.Second) // lost after 10, abandoned after 11
		r.append(pawl.Message{Topic: "a", ID: "y"})
		time.Sleep(58 * time.Second) // x is there again after 30
		equal(r, seen.list(), []string{"x at 0s", "y at 12s"})
		close(stuck)
		time.Sleep(2 * time.Second)
		equal(r, len(seen.list()), 3)
		r.gone("x")
	})
}

// The context of a handler is one of the standard library in every respect.
func TestContextOfAHandler(t *testing.T) {
	bubble(t, func(r *rig) {
		type leftover struct{ ctx, child context.Context }
		left := make(chan leftover, 1)
		r.append(pawl.Message{Topic: "a", ID: "x", Headers: map[string]string{"traceparent": trace}})
		r.run(one(1, func(ctx context.Context, d *pawl.Delivery) error {
			equal(t, ctx.Value(ctxKey{}), any("of Run"))
			equal(t, fromContext(ctx), d)
			equal(t, ctx.Err(), nil)
			equal(t, context.Cause(ctx), nil)
			child, cancel := context.WithTimeout(ctx, time.Hour)
			context.AfterFunc(ctx, cancel)
			if fromContext(child) != d {
				t.Error("a child does not know the delivery")
			}
			left <- leftover{ctx, child}
			return nil
		}))
		l := <-left
		synctest.Wait()
		for _, ctx := range []context.Context{l.ctx, l.child} {
			select {
			case <-ctx.Done():
			default:
				t.Error("the context outlives its handler")
			}
			equal(r, ctx.Err(), context.Canceled)
			if !errors.Is(context.Cause(ctx), context.Canceled) {
				t.Error(context.Cause(ctx))
			}
		}
	})
}

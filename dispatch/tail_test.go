package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// tailing lets the topic retry at the tail.
func tailing(c dispatch.Config) dispatch.Config {
	c.Topics[0].Settings = store.Declaration{Tail: new(true)}
	return c
}

// settles notes how messages with a key are settled.
func (r *rig) settles() *diary {
	var settled diary
	r.store.settled = func(b store.Batch[store.Settlement]) {
		for _, it := range b.Items {
			if it.ID[0] == 'k' {
				settled.add("%s %v", it.ID, it.Verdict)
			}
		}
	}
	return &settled
}

// declared makes topic a one that retries at the tail.
func (r *rig) declared(deadline time.Duration) {
	r.Helper()
	_, err := r.mem.Declare(context.Background(), store.Declaration{Name: "a", Tail: new(true), Deadline: deadline})
	equal(r, err, nil)
}

// warmed appends what makes runs long, in a topic that retries at the tail.
func (r *rig) warmed(n int) {
	r.Helper()
	r.declared(0)
	warm(r)
	r.append(keyed("a", "k", n)...)
}

// One that fails again and again keeps nothing of its lane waiting, and its run goes on.
func TestTailRetryLeavesTheLaneGoing(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		r.warmed(5)
		began, settled := time.Now(), r.settles()
		r.run(tailing(one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.Key == nil {
				return nil
			}
			seen.add("%s/%d", d.ID, d.Attempt)
			if d.ID == "k-0" && d.Attempt < 4 {
				return errBroken
			}
			if d.ID != "k-0" && time.Since(began) > time.Second {
				t.Errorf("%s came after %v", d.ID, time.Since(began))
			}
			return nil
		})))
		time.Sleep(time.Hour)
		equal(r, seen.list(), []string{"k-0/1", "k-1/1", "k-2/1", "k-3/1", "k-4/1", "k-0/2", "k-0/3", "k-0/4"})
		equal(r, settled.list(), []string{"k-0 retry", "k-1 ack", "k-2 ack", "k-3 ack", "k-4 ack", "k-0 retry", "k-0 retry",
			"k-0 ack"})
		now := r.d.Snapshot().Topics[0]
		equal(r, []int64{now.Retried, now.Lost, now.Released, r.stats("a").Rescues}, []int64{3, 0, 0, 0})
	})
}

// A retry is claimed when it is due, not when somebody looks again.
func TestTailRetryIsPunctual(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		began := time.Now()
		r.declared(0)
		r.append(keyed("a", "k", 1)...)
		c := tailing(one(1, func(_ context.Context, d *pawl.Delivery) error {
			seen.add("%v", time.Since(began).Truncate(100*time.Millisecond))
			if d.Throttles == 0 {
				return pawl.Throttled(errBroken, 20*time.Second)
			}
			return nil
		}))
		c.PollMax = time.Minute
		r.run(c)
		time.Sleep(time.Minute)
		equal(r, seen.list(), []string{"0s", "20s"})
	})
}

// The verdicts of a batch behind a retry count, and its hold comes after the last of them.
func TestBatchGoesOnBehindATailRetry(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		r.warmed(6)
		began, settled := time.Now(), r.settles()
		r.run(tailing(batched(1, 4, func(_ context.Context, ds []*pawl.Delivery) []error {
			errs := make([]error, len(ds))
			for i, d := range ds {
				if d.Key == nil {
					continue
				}
				seen.add("%s/%d at %v", d.ID, d.Attempt, time.Since(began).Truncate(time.Second))
				if d.ID == "k-1" && d.Throttles == 0 {
					d.Hold(10 * time.Second)
					errs[i] = pawl.Throttled(errBroken, 5*time.Second)
				}
			}
			return errs
		})))
		time.Sleep(time.Minute)
		equal(r, seen.list(), []string{"k-0/1 at 0s", "k-1/1 at 0s", "k-2/1 at 0s", "k-3/1 at 0s", "k-4/1 at 10s",
			"k-5/1 at 10s", "k-1/1 at 10s"})
		equal(r, settled.list(), []string{"k-0 ack", "k-1 retry", "k-2 ack", "k-3 ack", "k-4 ack", "k-5 ack", "k-1 ack"})
		equal(r, r.stats("a").Rescues, int64(0))
	})
}

// A handler that is given up keeps its lane closed here until it returns, though the
// store goes on with it.
func TestZombieKeepsTheLaneOfATailRetry(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		began := time.Now()
		r.declared(10 * time.Second)
		r.append(keyed("a", "k", 1)...)
		r.run(one(2, func(_ context.Context, d *pawl.Delivery) error {
			if d.ID == "k-0" && d.Attempt == 1 {
				time.Sleep(5 * time.Minute)
				seen.add("returns at %v", time.Since(began).Truncate(time.Minute))
				return nil
			}
			seen.add("%s/%d at %v", d.ID, d.Attempt, time.Since(began).Truncate(time.Minute))
			return nil
		}))
		time.Sleep(time.Minute)
		r.append(pawl.Message{ID: "late", Topic: "a", Key: []byte("k")})
		time.Sleep(time.Hour)
		equal(r, seen.list()[0], "returns at 5m0s")
		equal(r, len(seen.list()), 3)
	})
}

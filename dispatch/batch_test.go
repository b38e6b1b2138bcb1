package dispatch_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

func batched(concurrency, size int, h pawl.BatchHandlerFunc) dispatch.Config {
	return dispatch.Config{Topics: []dispatch.Topic{{Name: "a", Batch: h, Concurrency: concurrency, BatchSize: size}}}
}

func TestBatchesAreFilled(t *testing.T) {
	bubble(t, func(r *rig) {
		var calls, most atomic.Int64
		r.append(numbered("a", 10_000)...)
		c := batched(2, 100, func(_ context.Context, ds []*pawl.Delivery) []error {
			calls.Add(1)
			atLeast(&most, int64(len(ds)))
			time.Sleep(10 * time.Millisecond)
			return make([]error, len(ds))
		})
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		equal(r, most.Load(), int64(100))
		if calls.Load() > 120 {
			r.Fatalf("%d batches", calls.Load())
		}
		equal(r, r.stats("a").Acked, int64(10_000))
	})
}

// Every delivery has its own verdict; one that is missing is a failure.
func TestBatchVerdicts(t *testing.T) {
	bubble(t, func(r *rig) {
		var first atomic.Bool
		r.append(numbered("a", 6)...)
		r.run(batched(1, 10, func(_ context.Context, ds []*pawl.Delivery) []error {
			if first.Swap(true) {
				return make([]error, len(ds))
			}
			if len(ds) != 6 {
				t.Errorf("a batch of %d", len(ds))
			}
			ds[0].Emit(pawl.Message{Topic: "b"})
			ds[1].Emit(pawl.Message{Topic: "b"})
			return []error{nil, errBroken, pawl.Permanent(errBroken), pawl.Release(time.Hour, "later")}
		}))
		time.Sleep(100 * time.Millisecond)
		states := func(ids ...string) (got []string) {
			for _, id := range ids {
				rec, err := r.mem.Get(context.Background(), id)
				if err != nil {
					got = append(got, "gone")
					continue
				}
				got = append(got, fmt.Sprintf("%s %d %s", rec.State, rec.Attempts, rec.Reason))
			}
			return got
		}
		equal(r, states("a-0", "a-1", "a-2", "a-3", "a-4", "a-5"), []string{
			"gone", "delayed 1 broken", "dead 1 broken", "delayed 0 released: later",
			"delayed 1 the batch handler returned no verdict for this delivery",
			"delayed 1 the batch handler returned no verdict for this delivery",
		})
		equal(r, r.stats("b").Waiting, int64(1))
	})
}

// A failure in a run gives the rest of it back, whatever the other verdicts.
func TestBatchOverRuns(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		warm(r)
		r.append(keyed("a", "k", 5)...)
		var settled diary
		r.store.settled = func(b store.Batch[store.Settlement]) {
			for _, it := range b.Items {
				if it.ID[0] == 'k' {
					settled.add("%s %v", it.ID, it.Verdict)
				}
			}
		}
		r.run(batched(1, 50, func(_ context.Context, ds []*pawl.Delivery) []error {
			errs := make([]error, len(ds))
			for i, d := range ds {
				if d.Key == nil {
					continue
				}
				seen.add("%s/%d", d.ID, d.Attempt)
				if d.ID == "k-2" && d.Attempt == 1 {
					errs[i] = errBroken
				}
			}
			return errs
		}))
		time.Sleep(time.Minute)
		equal(r, settled.list(), []string{"k-0 ack", "k-1 ack", "k-2 retry", "k-2 ack", "k-3 ack", "k-4 ack"})
		got := seen.list()
		equal(r, got[len(got)-3:], []string{"k-2/2", "k-3/1", "k-4/1"})
		equal(r, r.stats("a").Rescues, int64(0))
	})
}

// A lane longer than a batch is carried out in several, in order.
func TestRunLongerThanABatch(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		var most atomic.Int64
		warm(r)
		r.append(keyed("a", "k", 40)...)
		c := batched(3, 7, func(_ context.Context, ds []*pawl.Delivery) []error {
			atLeast(&most, int64(len(ds)))
			for _, d := range ds {
				if d.Key != nil {
					seen.add("%s", d.ID)
				}
			}
			return make([]error, len(ds))
		})
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		var want []string
		for i := range 40 {
			want = append(want, fmt.Sprintf("k-%d", i))
		}
		equal(r, seen.list(), want)
		if most.Load() > 7 {
			r.Fatalf("a batch of %d", most.Load())
		}
	})
}

func TestBatchPanicFailsAll(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(numbered("a", 3)...)
		r.run(batched(1, 10, func(_ context.Context, ds []*pawl.Delivery) []error {
			if ds[0].Attempt == 1 {
				panic("oh")
			}
			return make([]error, len(ds))
		}))
		time.Sleep(time.Minute)
		s := r.stats("a")
		equal(r, []int64{s.Acked, s.Retried, s.Rescues}, []int64{3, 3, 0})
	})
}

// A batch that does not return is abandoned as a whole.
func TestStuckBatch(t *testing.T) {
	bubble(t, func(r *rig) {
		stuck := make(chan struct{})
		var calls diary
		r.append(keyed("a", "k", 3)...)
		r.append(pawl.Message{Topic: "a", ID: "x"})
		c := batched(1, 10, func(ctx context.Context, ds []*pawl.Delivery) []error {
			ids := []string{}
			for _, d := range ds {
				ids = append(ids, d.ID)
			}
			slices.Sort(ids)
			calls.add("%v", ids)
			if len(calls.list()) == 1 {
				<-ctx.Done()
				calls.add("%v", context.Cause(ctx))
				<-stuck
			}
			return make([]error, len(ds))
		})
		c.Topics[0].Settings.Deadline = 10 * time.Second
		r.run(c)
		time.Sleep(9100 * time.Millisecond)
		equal(r, r.d.Snapshot().Topics[0].Zombies, 1)
		equal(r, r.get("x").Attempts, 1)
		time.Sleep(time.Minute)
		equal(r, len(calls.list()), 2) // both lanes are closed here
		close(stuck)
		time.Sleep(time.Minute)
		equal(r, r.stats("a").Acked, int64(4))
		equal(r, r.stats("a").Rescues, int64(0))
	})
}

// What a batch acks of one lane is done, whatever holds it states: the lane is
// closed for the longest of them, after the last.
func TestBatchHoldsTheLaneOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		var handled diary
		warm(r)
		for i := range 6 {
			r.append(pawl.Message{Topic: "a", ID: fmt.Sprint("m", i), Key: []byte("host")})
		}
		r.run(batched(1, 4, func(_ context.Context, ds []*pawl.Delivery) []error {
			for i, d := range ds {
				if d.Key != nil {
					handled.add("%s", d.ID)
					d.Hold(time.Duration(10-i) * time.Second)
				}
			}
			return make([]error, len(ds))
		}))
		time.Sleep(9 * time.Second)
		equal(r, handled.list(), []string{"m0", "m1", "m2", "m3"})
		time.Sleep(3 * time.Second)
		equal(r, handled.list(), []string{"m0", "m1", "m2", "m3", "m4", "m5"})
	})
}

// A message that makes its whole batch fail, in whatever way, is alone before its neighbours have used up their
// attempts.
func TestPoisonOfABatchIsAlone(t *testing.T) {
	for name, fail := range map[string]func(ctx context.Context, ds []*pawl.Delivery) []error{
		"panic":   func(context.Context, []*pawl.Delivery) []error { panic("poison") },
		"nothing": func(context.Context, []*pawl.Delivery) []error { return nil },
		"deadline": func(ctx context.Context, ds []*pawl.Delivery) []error {
			<-ctx.Done()
			return slices.Repeat([]error{ctx.Err()}, len(ds))
		},
		"one error": func(_ context.Context, ds []*pawl.Delivery) []error {
			return slices.Repeat([]error{errBroken}, len(ds))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.append(numbered("a", 200)...)
				r.append(pawl.Message{Topic: "a", ID: "poison"})
				c := batched(1, 1000, func(ctx context.Context, ds []*pawl.Delivery) []error {
					for _, d := range ds {
						if d.ID == "poison" {
							return fail(ctx, ds)
						}
					}
					return make([]error, len(ds))
				})
				c.UntilEmpty, c.Topics[0].BatchWait = true, time.Minute // retries meet again
				c.Topics[0].Retries.Attempts = 10
				r.run(c)
				equal(r, r.ended(), nil)
				equal(r, r.stats("a").Acked, int64(200))
				equal(r, r.stats("a").Dead, int64(1))
			})
		})
	}
}

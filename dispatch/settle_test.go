package dispatch_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// While a settle is on its way for one message of a lane, the next one's waits.
func TestSettlesOfALaneDoNotOvertakeEachOther(t *testing.T) {
	bubble(t, func(r *rig) {
		var order diary
		var held atomic.Bool
		r.store.settle = func(b store.Batch[store.Settlement]) error {
			if len(b.Items) < warmUp/2 && b.Items[0].ID == "k-0" && held.CompareAndSwap(false, true) {
				time.Sleep(10 * time.Second)
			}
			for _, it := range b.Items {
				if it.ID[0] == 'k' {
					order.add("%s", it.ID)
				}
			}
			return nil
		}
		warm(r)
		r.append(keyed("a", "k", 4)...)
		r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.Key != nil {
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		}))
		time.Sleep(2 * time.Minute)
		equal(r, order.list(), []string{"k-0", "k-1", "k-2", "k-3"})
		equal(r, held.Load(), true)
		equal(r, r.stats("a").Acked, int64(4+warmUp))
	})
}

// A settle of unknown outcome is repeated under its id, so that it takes effect
// once, until the leases are surely over.
func TestSettleIsRepeated(t *testing.T) {
	bubble(t, func(r *rig) {
		var ids diary
		var failures atomic.Int64
		unknown := &store.Error{Op: "settle", Code: store.ErrUnavailable, Err: errors.New("connection reset")}
		r.store.settle = func(b store.Batch[store.Settlement]) error {
			ids.add("%s", b.ID)
			switch failures.Add(1) {
			case 1, 2, 3:
				return unknown
			case 4: // it took effect, but the answer is lost
				_, _ = r.mem.Settle(context.Background(), b)
				return unknown
			}
			return nil
		}
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(one(1, func(context.Context, *pawl.Delivery) error { return nil }))
		time.Sleep(10 * time.Second)
		r.gone("x")
		got := ids.list()
		equal(r, len(got), 5)
		for _, id := range got {
			equal(r, id, got[0])
		}
		s := r.d.Snapshot().Topics[0]
		equal(r, []int64{s.Acked, s.Lost}, []int64{1, 0}) // the repetition is no refusal
	})
}

func TestSettleIsGivenUpWhenTheLeaseIsOver(t *testing.T) {
	bubble(t, func(r *rig) {
		var down atomic.Bool
		down.Store(true)
		r.store.settle = func(store.Batch[store.Settlement]) error {
			if down.Load() {
				return &store.Error{Op: "settle", Code: store.ErrUnavailable}
			}
			return nil
		}
		r.store.extend = func([]pawl.Token) ([]pawl.Token, error) {
			if down.Load() {
				return nil, errGone
			}
			return nil, nil
		}
		var worked atomic.Bool
		r.store.claim = func([]store.Want, store.Lease) error {
			if down.Load() && worked.Load() {
				return errGone
			}
			return nil
		}
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(one(1, func(context.Context, *pawl.Delivery) error { worked.Store(true); return nil }))
		time.Sleep(29 * time.Second)
		equal(r, r.d.Snapshot().Unsettled, 1)
		time.Sleep(10 * time.Second)
		equal(r, []int{r.d.Snapshot().Unsettled, r.d.Snapshot().Held}, []int{0, 0})
		down.Store(false)
		time.Sleep(20 * time.Second)
		s := r.d.Snapshot()
		// the second delivery
		equal(r, []int64{int64(s.Unsettled), s.Topics[0].Lost, s.Topics[0].Acked}, []int64{0, 1, 1})
		r.gone("x")
	})
}

// A store that settles slowly is not claimed from quickly.
func TestBackPressure(t *testing.T) {
	bubble(t, func(r *rig) {
		block := make(chan struct{})
		r.store.settle = func(store.Batch[store.Settlement]) error { <-block; return nil }
		r.append(numbered("a", 10_000)...)
		r.append(numbered("a0", 1)...)
		r.run(one(32, func(context.Context, *pawl.Delivery) error { return nil }))
		time.Sleep(5 * time.Second)
		if s := r.d.Snapshot(); s.Held > 7000 || s.Held < 4000 {
			r.Fatalf("%+v", s)
		}
		close(block)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		equal(r, r.stats("a").Acked, int64(10_000))
	})
}

// Verdicts that follow one another closely are settled together: the first one
// waits a moment, and what comes while a call is on its way waits for it.
func TestVerdictsAreGathered(t *testing.T) {
	for name, took := range map[string]time.Duration{"quick store": 0, "slow store": 2 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				var calls atomic.Int64
				r.store.settle = func(store.Batch[store.Settlement]) error {
					calls.Add(1)
					time.Sleep(took)
					return nil
				}
				r.append(numbered("a", 2000)...)
				c := one(1, func(context.Context, *pawl.Delivery) error {
					time.Sleep(100 * time.Microsecond)
					return nil
				})
				c.UntilEmpty = true
				r.run(c)
				equal(r, r.ended(), nil)
				if most := int64(2000 / 15 * (1 + int(2*time.Millisecond-took)/int(
					2*time.Millisecond))); calls.Load() > most {
					r.Fatalf("%d calls, want at most %d", calls.Load(), most)
				}
			})
		})
	}
}

// Handlers that are not quick, but many: some of them end all the time.
func TestVerdictsOfManyAreGathered(t *testing.T) {
	bubble(t, func(r *rig) {
		var calls, n atomic.Int64
		r.store.settle = func(store.Batch[store.Settlement]) error { calls.Add(1); return nil }
		r.append(numbered("a", 2000)...)
		c := one(100, func(context.Context, *pawl.Delivery) error {
			time.Sleep(5*time.Millisecond + time.Duration(n.Add(1)%100)*47*time.Microsecond)
			return nil
		})
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		if calls.Load() > 2000/4 {
			r.Fatalf("%d calls for 2000 verdicts", calls.Load())
		}
	})
}

// When nothing more is coming, nothing is waited for.
func TestLastVerdictsAreSettledAtOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		r.run(one(4, func(context.Context, *pawl.Delivery) error { return nil }))
		for i := range 20 {
			time.Sleep(time.Second)
			began := time.Now()
			n := int64(len(r.appendSome(1 + 100*i)))
			synctest.Wait()
			if s := r.stats("a"); s.Acked != s.Appended {
				r.Fatalf("%d of %d are not settled, %v later", n-s.Acked, n, time.Since(began))
			}
		}
	})
}

func (r *rig) appendSome(n int) []pawl.Message {
	msgs := make([]pawl.Message, n)
	for i := range msgs {
		msgs[i].Topic = "a"
	}
	r.append(msgs...)
	return msgs
}

// One item that spoils a call does not keep the others from being settled.
func TestSpoiltCallIsSplit(t *testing.T) {
	bubble(t, func(r *rig) {
		r.store.settle = func(b store.Batch[store.Settlement]) error {
			for _, it := range b.Items {
				if it.ID == "a-7" {
					return &store.Error{Op: "settle", Code: store.ErrInvalid}
				}
			}
			return nil
		}
		r.append(numbered("a", 64)...)
		release := make(chan struct{})
		r.run(one(64, func(context.Context, *pawl.Delivery) error { <-release; return nil }))
		time.Sleep(time.Second)
		close(release)
		time.Sleep(time.Second)
		equal(r, r.stats("a").Acked, int64(63))
		equal(r, r.d.Snapshot().Held, 0)
	})
}

// More than one call may hold is settled in several, and those of a lane still
// do not overtake each other.
func TestLargeEmitsAreSplitOverCalls(t *testing.T) {
	bubble(t, func(r *rig) {
		var calls, lane atomic.Int64
		r.store.settle = func(b store.Batch[store.Settlement]) error {
			calls.Add(1)
			if _, err := backend.AdmitSettle(b); err != nil {
				t.Error(err)
			}
			for _, it := range b.Items {
				if it.ID[0] == 'k' {
					if lane.Add(1) > 1 {
						t.Error("two calls for one lane")
					}
					defer lane.Add(-1)
					break
				}
			}
			time.Sleep(10 * time.Millisecond)
			return nil
		}
		warm(r)
		r.append(keyed("a", "k", 30)...)
		body := make([]byte, 10<<20)
		r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.Key != nil {
				d.Emit(pawl.Message{Topic: "b", Body: body})
			}
			return nil
		}))
		time.Sleep(time.Minute)
		equal(r, r.stats("a").Acked, int64(30+warmUp))
		equal(r, r.stats("b").Waiting, int64(30))
		if calls.Load() < 5 {
			r.Fatalf("%d calls for 300 MiB", calls.Load())
		}
	})
}

package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// slowStore takes that long for each claim and each settlement.
func (h *hooked) slow(each time.Duration) {
	h.claim = func([]store.Want, store.Lease) error { time.Sleep(each); return nil }
	h.settle = func(store.Batch[store.Settlement]) error { time.Sleep(each); return nil }
}

// A lane keeps its slot while its verdict is on its way: its next message is not there yet, and
// something of a lower priority took its place, one to one.
func TestALaneKeepsItsSlotFromLowerPriorities(t *testing.T) {
	for _, slots := range []int{1, 3} {
		for handler, slow := range map[time.Duration]time.Duration{
			50 * time.Millisecond: 3 * time.Millisecond, 300 * time.Millisecond: 3 * time.Millisecond,
			5 * time.Second: 200 * time.Millisecond,
		} {
			for _, prio := range []int{50, pawl.MaxPriority} {
				t.Run(fmt.Sprint(slots, " slots, ", handler, ", priority ", prio), func(t *testing.T) {
					bubble(t, func(r *rig) {
						r.store.slow(slow)
						// The end of a lane is not known before a claim: the others of its rank go on meanwhile.
						if low := r.lowBefore(slots, prio, 10, handler); low >= slots {
							t.Errorf("%d are of the lower priority", low)
						}
					})
				})
			}
		}
	}
}

// lowBefore carries out a lane of that priority for each slot, and others of a lower one. It returns how many of the
// others were carried out before the lanes could have been.
func (r *rig) lowBefore(slots, prio, each int, handler time.Duration) (low int) {
	for lane := range slots {
		for _, m := range keyed("a", fmt.Sprint("vip", lane), each) {
			m.Priority = prio
			r.append(m)
		}
	}
	for lane := range 5 {
		r.append(keyed("a", fmt.Sprint("low", lane), each)...)
	}
	var seen diary
	c := one(slots, func(_ context.Context, d *pawl.Delivery) error {
		time.Sleep(handler)
		seen.add("%s", d.ID)
		return nil
	})
	c.UntilEmpty = true
	r.run(c)
	equal(r, r.ended(), nil)
	all := seen.list()
	equal(r, len(all), (slots+5)*each)
	for _, id := range all[:slots*each] {
		if strings.HasPrefix(id, "low") {
			low++
		}
	}
	return low
}

// Batches keep their slot, too.
func TestLanesKeepTheSlotOfTheirBatch(t *testing.T) {
	bubble(t, func(r *rig) {
		r.store.slow(3 * time.Millisecond)
		for lane := range 3 {
			for _, m := range keyed("a", fmt.Sprint("vip", lane), 8) {
				m.Priority = pawl.MaxPriority
				r.append(m)
			}
		}
		r.append(numbered("a", 40)...)
		urgent, low := 0, 0
		c := batched(1, 4, func(_ context.Context, ds []*pawl.Delivery) []error {
			time.Sleep(300 * time.Millisecond)
			n := 0
			for _, d := range ds {
				if d.Priority > 0 {
					n++
				}
			}
			if n == 0 && urgent < 24 {
				low++
			}
			urgent += n
			return make([]error, len(ds))
		})
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		if low > 1 {
			t.Errorf("%d batches have only the lower priority", low)
		}
	})
}

// A store that was slow for a while is not taken for slow for ever.
func TestASlotIsKeptAgainWhenTheStoreIsQuick(t *testing.T) {
	bubble(t, func(r *rig) {
		began := time.Now()
		pause := func() {
			if time.Since(began) < 5*time.Second {
				time.Sleep(30 * time.Millisecond)
			}
		}
		r.store.claim = func([]store.Want, store.Lease) error { pause(); return nil }
		r.store.settle = func(store.Batch[store.Settlement]) error { pause(); return nil }
		const each = 300
		if low := r.lowBefore(1, 50, each, 50*time.Millisecond); low > each/3 {
			t.Errorf("%d of the first %d are of the lower priority", low, each)
		}
	})
}

// Slots are kept only from lower priorities, and only for as long as a settlement and a claim take.
func TestKeptSlotsCostNothing(t *testing.T) {
	work := func(t *testing.T, prio func(lane int) int) (took time.Duration) {
		bubble(t, func(r *rig) {
			r.store.slow(3 * time.Millisecond)
			for lane := range 20 {
				for _, m := range keyed("a", fmt.Sprint("lane", lane), 20) {
					m.Priority = prio(lane)
					r.append(m)
				}
			}
			var n atomic.Int64
			c := one(4, func(context.Context, *pawl.Delivery) error {
				time.Sleep(50 * time.Millisecond)
				n.Add(1)
				return nil
			})
			c.UntilEmpty = true
			began := time.Now()
			r.run(c)
			equal(r, r.ended(), nil)
			equal(r, n.Load(), int64(400))
			took = time.Since(began)
		})
		return took
	}
	flat := work(t, func(int) int { return 0 })
	mixed := work(t, func(lane int) int { return lane * 4 })
	t.Logf("of one priority %v, of twenty %v", flat, mixed)
	if mixed > flat*5/4 {
		t.Errorf("of one priority %v, of twenty %v", flat, mixed)
	}
}

// What takes longer than that is not waited for.
func TestASlotIsNotKeptForASlowStore(t *testing.T) {
	bubble(t, func(r *rig) {
		for _, m := range keyed("a", "vip", 1) {
			m.Priority = 50
			r.append(m)
		}
		r.append(numbered("a", 1)...)
		began := time.Now()
		r.store.settle = func(store.Batch[store.Settlement]) error { time.Sleep(10 * time.Second); return nil }
		started := make(chan time.Duration, 2)
		r.run(one(1, func(context.Context, *pawl.Delivery) error {
			started <- time.Since(began)
			time.Sleep(100 * time.Millisecond)
			return nil
		}))
		<-started
		if at := <-started; at > 2*time.Second {
			t.Errorf("the other one waited for %v", at)
		}
	})
}

// A message that is given back because handlers take long goes before what is held meanwhile: the slot becomes free
// while its release is on its way.
func TestWhatIsGivenBackIsNextFromLowerPriorities(t *testing.T) {
	bubble(t, func(r *rig) {
		r.store.slow(5 * time.Millisecond)
		back := make(chan struct{})
		r.store.settle = func(b store.Batch[store.Settlement]) error {
			for _, st := range b.Items {
				if st.ID == "urgent" && st.Verdict == store.Release {
					close(back)
				}
			}
			time.Sleep(5 * time.Millisecond)
			return nil
		}
		var seen diary
		c := one(1, func(_ context.Context, d *pawl.Delivery) error {
			seen.add("%s", d.ID)
			if len(seen.list()) == 1000 {
				time.Sleep(100 * time.Millisecond)
				r.append(pawl.Message{ID: "urgent", Topic: "a", Priority: pawl.MaxPriority})
				r.d.Wake("a")
				<-back
			}
			return nil
		})
		c.UntilEmpty = true
		r.append(numbered("a", 3000)...)
		r.run(c)
		equal(r, r.ended(), nil)
		equal(r, seen.list()[1000], "urgent")
	})
}

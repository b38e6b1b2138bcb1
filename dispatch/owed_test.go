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
		for _, handler := range []time.Duration{50 * time.Millisecond, 300 * time.Millisecond} {
			t.Run(fmt.Sprint(slots, " slots, ", handler), func(t *testing.T) {
				bubble(t, func(r *rig) {
					r.store.slow(3 * time.Millisecond)
					const each = 10
					vips := slots
					for lane := range vips {
						for _, m := range keyed("a", fmt.Sprint("vip", lane), each) {
							m.Priority = 50
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
					equal(r, len(all), (vips+5)*each)
					low := 0
					for _, id := range all[:vips*each] {
						if strings.HasPrefix(id, "low") {
							low++
						}
					}
					// The end of a lane is not known before a claim: the others of its rank go on meanwhile.
					if low >= slots {
						t.Errorf("%d of the first %d are of the lower priority: %v", low, vips*each, all[:vips*each])
					}
				})
			})
		}
	}
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

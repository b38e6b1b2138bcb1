package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// roomy is a configuration whose topics share a room, and whose handlers wait for open.
func roomy(lanes *atomic.Int64, c *crowd, open <-chan struct{}, topics ...string) (cfg dispatch.Config) {
	room := &dispatch.Room{Lanes: func() (int, int, int) { return int(lanes.Load()), 1, 1 }}
	for _, name := range topics {
		cfg.Topics = append(cfg.Topics, dispatch.Topic{Name: name, Concurrency: 1000, Room: room,
			Handler: pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
				defer c.enter(d.ID)()
				defer c.enter(d.Topic)()
				select {
				case <-open:
				case <-ctx.Done():
				}
				return ctx.Err()
			})})
	}
	return cfg
}

// TestRoomBoundsWhatIsClaimed: what a handler has no room for stays in the store, topics that
// share a room share it, and when there is more of it more is claimed.
func TestRoomBoundsWhatIsClaimed(t *testing.T) {
	bubble(t, func(r *rig) {
		var c crowd
		var lanes atomic.Int64
		lanes.Store(8)
		open := make(chan struct{})
		r.append(append(numbered("a", 100), numbered("b", 100)...)...)
		r.run(roomy(&lanes, &c, open, "a", "b"))
		time.Sleep(10 * time.Second)
		stats := func(topic string) int64 {
			s, err := r.mem.Stats(t.Context(), topic)
			equal(t, err, nil)
			return s[0].Leased
		}
		if a, b := stats("a"), stats("b"); a+b < 8 || a+b > 10 || a < 2 || b < 2 { // a probe may bring one more
			t.Errorf("%d of a and %d of b are claimed, with room for 8", a, b)
		}
		equal(t, r.d.Snapshot().Topics[0].Concurrency, 8) // what people are shown as slots
		lanes.Store(50)
		r.d.Wake()
		time.Sleep(10 * time.Second)
		if n := stats("a") + stats("b"); n < 50 || n > 54 {
			t.Errorf("%d are claimed, with room for 50", n)
		}
		close(open)
		time.Sleep(time.Minute)
		equal(t, c.count("a")+c.count("b"), 200)
	})
}

// TestRoomIsNoBarrier: what is appended may be more urgent than all that a handler has, so
// one message is claimed beyond the room.
func TestRoomIsNoBarrier(t *testing.T) {
	bubble(t, func(r *rig) {
		var c crowd
		var lanes atomic.Int64
		lanes.Store(4)
		open := make(chan struct{})
		defer close(open)
		r.append(numbered("a", 100)...)
		r.run(roomy(&lanes, &c, open, "a"))
		time.Sleep(10 * time.Second)
		if n := c.count("a"); n > 5 {
			t.Errorf("%d began, with room for 4", n)
		}
		urgent := pawl.Message{ID: "urgent", Topic: "a", Priority: pawl.MaxPriority}
		equal(t, store.Send(t.Context(), r.mem, urgent), nil)
		time.Sleep(time.Second)
		equal(t, c.count("urgent"), 1)
	})
}

// handedBack is what a handler with a queue of its own gives back because there is no room for it.
type handedBack struct{ error }

func (h handedBack) Unwrap() error { return h.error }
func (handedBack) HandBack() bool  { return true }

// While a handler with a queue of its own is busy for long, something better is looked for, but what it gives back
// does not make that an endless loop.
func TestWhatAHandlerHandsBackIsNotClaimedAllTheTime(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(numbered("a", 20)...)
		var held, back atomic.Int64
		c := one(50, func(ctx context.Context, _ *pawl.Delivery) error {
			defer held.Add(-1)
			if held.Add(1) > 3 {
				back.Add(1)
				return handedBack{pawl.Release(0, "there is no room")}
			}
			time.Sleep(10 * time.Second)
			return nil
		})
		c.Topics[0].Room = &dispatch.Room{Lanes: func() (lanes, worth, run int) { return 3, 1, 1 }}
		r.run(c)
		time.Sleep(time.Second)
		r.append(pawl.Message{Topic: "a"}) // which wakes
		time.Sleep(8 * time.Second)
		if n := back.Load(); n > 150 {
			t.Errorf("%d messages were handed back in 8 s", n)
		}
		time.Sleep(80 * time.Second)
		equal(r, r.stats("a").Acked, int64(21))
	})
}

package enginetest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/storetest"
)

var crashScenarios = []Scenario{
	{Text: "Messages held by a process that died are delivered again, and end exactly once.",
		Name: "CrashIsRescued", Needs: needs(store.CanDeadline), Test: func(r *Rig) {
			const all = 400
			var done counts
			var n atomic.Int64
			r.append(numbered("a", all/2)...)
			r.append(inLanes("a", 10, all/20)...)
			for crashes := range 3 {
				r.dies(r.killed(dispatch.Config{}, func(d *pawl.Delivery) bool {
					if n.Add(1) >= int64((crashes+1)*80) {
						return true
					}
					done.add(d.ID)
					return false
				}))
			}
			r.finish(topic("a", mortal, 8, func(_ context.Context, d *pawl.Delivery) error {
				done.add(d.ID)
				return nil
			}))
			r.check(r.balanced("a", all, 0).Rescues > 0, "no lease was rescued: the test shows nothing")
			r.check(len(done.of) == all, "%d of %d were carried out", len(done.of), all)
		}},
	{Text: "A message that kills its process becomes a dead letter, and no other message does.",
		Name: "KillerIsIsolated", Needs: needs(store.CanDeadline, store.CanDeadLetters), Test: func(r *Rig) {
			const all = 60
			var kills atomic.Int64
			r.append(numbered("a", all)...)
			for range 12 {
				if r.ended(r.killed(dispatch.Config{UntilEmpty: true}, func(d *pawl.Delivery) bool {
					if d.ID == "a-20" {
						kills.Add(1)
						return true
					}
					time.Sleep(2 * time.Millisecond)
					return false
				})) == nil {
					break
				}
			}
			r.balanced("a", all, 1)
			rec := r.dead()["a-20"]
			r.check(rec.Kind == pawl.KindRescue && rec.Attempts == 0, "the killer: %+v", rec)
			// Four times beside other work, then alone. A kill before the claim was known here may
			// add one.
			n := kills.Load()
			r.check(n >= store.LonelyRescues && n <= store.SolitaryAfter+store.LonelyRescues+2, "it killed %d times", n)
		}},
	{Text: "A store that fails for a while causes delay, but no loss and no failed attempts.",
		Name: "OutageIsSurvived", Needs: needs(store.CanRepeatBatch), Test: func(r *Rig) {
			const all = 2000
			var n, failed atomic.Int64
			var down atomic.Bool
			f := storetest.Faulty(r.Store, func(op string) storetest.Fault {
				switch {
				case op == "append" || !down.Load():
					return 0
				case failed.Add(1)%2 == 1 && op == "settle":
					return storetest.FailAfter // it took effect, and nobody knows
				default:
					return storetest.FailBefore
				}
			})
			r.append(numbered("a", all)...)
			e := r.start(f, topic("a", calm, 4, func(context.Context, *pawl.Delivery) error {
				time.Sleep(time.Duration(r.random(2)) * time.Millisecond)
				switch n.Add(1) {
				case 300, 900:
					down.Store(true)
					time.AfterFunc(300*time.Millisecond, func() { down.Store(false) })
				}
				return nil
			}))
			r.until("all are done", func() bool { return r.stats()["a"].Acked == all })
			r.end(e)
			r.unrescued("a", all)
			r.check(n.Load() == all, "%d deliveries of %d messages", n.Load(), all)
			r.check(failed.Load() != 0, "no call failed: the test shows nothing")
		}},
	{Text: "Messages that a store held when it was closed are carried out when it is open again.",
		Name: "ReopenedGoesOn", Needs: needs(store.CanSurvive), Test: func(r *Rig) {
			var l lanes
			r.append(inLanes("a", 10, 20)...)
			h := func(_ context.Context, d *pawl.Delivery) error {
				return l.during(d, func() error { time.Sleep(time.Millisecond); return nil })
			}
			var n atomic.Int64
			half := make(chan struct{})
			e := r.start(r.Store, topic("a", calm, 4, func(ctx context.Context, d *pawl.Delivery) error {
				if n.Add(1) == 60 {
					close(half)
				}
				return h(ctx, d)
			}))
			<-half
			r.end(e)
			r.Store = r.Reopen(r)
			r.finish(topic("a", calm, 4, h))
			l.check(r)
			r.unrescued("a", 200)
		}},
}

// killed starts a dispatcher that is killed when its handler says so.
func (r *Rig) killed(c dispatch.Config, by func(*pawl.Delivery) bool) (e *engine) {
	ready := make(chan struct{})
	defer close(ready)
	c.Topics = []dispatch.Topic{topic("a", mortal, 8, func(ctx context.Context, d *pawl.Delivery) error {
		if <-ready; by(d) {
			e.Kill()
			<-ctx.Done()
		}
		return nil
	})}
	e = r.startWith(r.Store, c)
	return e
}

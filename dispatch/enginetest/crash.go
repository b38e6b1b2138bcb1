package enginetest

import (
	"context"
	"errors"
	"sync"
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
			var mu sync.Mutex
			done := map[string]int{}
			var n atomic.Int64
			r.append(numbered("a", all/2)...)
			r.append(inLanes("a", 10, all/20)...)
			for crashes := range 3 {
				var e *engine
				ready := make(chan struct{})
				limit := int64((crashes + 1) * 80)
				e = r.start(r.store, mortal("a", 8, func(ctx context.Context, d *pawl.Delivery) error {
					<-ready
					if n.Add(1) >= limit {
						e.Kill()
						<-ctx.Done()
						return nil
					}
					mu.Lock()
					defer mu.Unlock()
					done[d.ID]++
					return nil
				}))
				close(ready)
				if err := r.ended(e); !errors.Is(err, dispatch.ErrKilled) {
					r.Fatal(err)
				}
			}
			r.finish(mortal("a", 8, func(_ context.Context, d *pawl.Delivery) error {
				mu.Lock()
				defer mu.Unlock()
				done[d.ID]++
				return nil
			}))
			if s := r.balanced("a", all, 0); s.Rescues == 0 {
				r.Error("no lease was rescued: the test shows nothing")
			}
			if len(done) != all {
				r.Errorf("%d of %d were carried out", len(done), all)
			}
		}},
	{Text: "A message that kills its process becomes a dead letter, and no other message does.",
		Name: "KillerIsIsolated", Needs: needs(store.CanDeadline, store.CanDeadLetters), Test: func(r *Rig) {
			const all = 60
			var kills atomic.Int64
			r.append(numbered("a", all)...)
			for range 12 {
				var e *engine
				ready := make(chan struct{})
				e = r.startWith(r.store, dispatch.Config{UntilEmpty: true,
					Topics: []dispatch.Topic{mortal("a", 8, func(ctx context.Context, d *pawl.Delivery) error {
						<-ready
						if d.ID == "a-20" {
							kills.Add(1)
							e.Kill()
							<-ctx.Done()
							return nil
						}
						time.Sleep(2 * time.Millisecond)
						return nil
					})}})
				close(ready)
				if r.ended(e) == nil {
					break
				}
			}
			r.balanced("a", all, 1)
			rec := r.dead()["a-20"]
			if rec.Kind != pawl.KindRescue || rec.Attempts != 0 {
				r.Errorf("the killer: %+v", rec)
			}
			// Four times in company, then alone. A kill before the claim was known here may
			// add one.
			if n := kills.Load(); n < store.LonelyRescues || n > store.SolitaryAfter+store.LonelyRescues+2 {
				r.Errorf("it killed %d times", n)
			}
		}},
	{Text: "A store that fails for a while causes delay, but no loss and no failed attempts.",
		Name: "OutageIsSurvived", Needs: needs(store.CanRepeatBatch), Test: func(r *Rig) {
			const all = 2000
			var n, failed atomic.Int64
			var down atomic.Bool
			f := storetest.Faulty(r.store, func(op string) storetest.Fault {
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
			e := r.start(f, dispatch.Topic{Name: "a", Concurrency: 4, Lease: calm,
				Handler: pawl.HandlerFunc(
					func(context.Context, *pawl.Delivery) error {
						time.Sleep(time.Duration(r.random(2)) * time.Millisecond)
						switch n.Add(1) {
						case 300, 900:
							down.Store(true)
							time.AfterFunc(300*time.Millisecond, func() { down.Store(false) })
						}
						return nil
					})})
			r.until("all are done", func() bool { return r.stats()["a"].Acked == all })
			if err := r.end(e); err != nil {
				r.Fatal(err)
			}
			if s := r.balanced("a", all, 0); s.Rescues != 0 {
				r.Errorf("%d rescues", s.Rescues)
			}
			if n.Load() != all {
				r.Errorf("%d deliveries of %d messages", n.Load(), all)
			}
			if failed.Load() == 0 {
				r.Error("no call failed: the test shows nothing")
			}
		}},
	{Text: "Messages that a store held when it was closed are carried out when it is open again.",
		Name: "ReopenedGoesOn", Needs: needs(store.CanSurvive), Test: func(r *Rig) {
			l := newLanes()
			r.append(inLanes("a", 10, 20)...)
			h := func(_ context.Context, d *pawl.Delivery) error {
				leave := l.enter(string(d.Key), int(d.Body[0]))
				time.Sleep(time.Millisecond)
				leave(true)
				return nil
			}
			var n atomic.Int64
			half := make(chan struct{})
			e := r.start(r.store, topic("a", 4, func(ctx context.Context, d *pawl.Delivery) error {
				if n.Add(1) == 60 {
					close(half)
				}
				return h(ctx, d)
			}))
			<-half
			if err := r.end(e); err != nil {
				r.Fatal(err)
			}
			r.store = r.in.Reopen(r)
			r.finish(topic("a", 4, h))
			l.check(r)
			if s := r.balanced("a", 200, 0); s.Rescues != 0 {
				r.Errorf("%d rescues", s.Rescues)
			}
		}},
}

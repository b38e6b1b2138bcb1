package enginetest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

var peerScenarios = []Scenario{
	{Text: "Several processes on one store: nothing twice at once, lanes in order, nothing lost.",
		Name: "PeersShareTheWork", Needs: needs(store.CanProcesses, store.CanExclusive), Test: func(r *Rig) {
			const keys, each = 30, 40
			var l lanes
			r.append(inLanes("a", keys, each)...)
			var by [3]atomic.Int64
			var wg sync.WaitGroup
			for i, s := range []store.Store{r.Store, r.Peer(r), r.Peer(r)} {
				e := r.startWith(s, dispatch.Config{UntilEmpty: true, Topics: []dispatch.Topic{topic("a", calm, 4,
					func(_ context.Context, d *pawl.Delivery) error {
						by[i].Add(1)
						return l.during(d, func() error {
							time.Sleep(time.Duration(500+r.random(2000)) * time.Microsecond)
							return r.failing(d, 10)
						})
					})}})
				wg.Go(func() {
					err := r.ended(e)
					r.check(err == nil, "%v", err)
				})
			}
			wg.Wait()
			l.check(r)
			r.unrescued("a", keys*each)
			if !store.Can(r.Store, store.CanAnyProcess) {
				return // who has a part of a log has its work, and the last one to join gets its part late
			}
			for i := range by {
				n := by[i].Load()
				r.check(n >= keys*each/20, "process %d carried out %d of %d", i, n, keys*each)
			}
		}},
	// Over a log the store itself is the member that has to die: its own tests kill whole processes.
	{Text: "Messages that a process held when it died are carried out by another process.",
		Name:  "PeerTakesOver",
		Needs: needs(store.CanProcesses, store.CanExclusive, store.CanDeadline, store.CanAnyProcess), Test: func(r *Rig) {
			const lease = 3 * mortal // a machine that stands still for a second is no death
			r.append(numbered("a", 20)...)
			var held atomic.Int64
			first := r.start(r.Store, topic("a", lease, 20,
				func(ctx context.Context, _ *pawl.Delivery) error {
					held.Add(1)
					<-ctx.Done()
					return nil
				}))
			r.until("the first one holds them all", func() bool { return held.Load() == 20 })
			var n atomic.Int64
			second := r.start(r.Peer(r), topic("a", lease, 20,
				func(context.Context, *pawl.Delivery) error {
					n.Add(1)
					return nil
				}))
			time.Sleep(lease + mortal)
			if n.Load() != 0 {
				r.Fatalf("%d were delivered although their lease was kept", n.Load())
			}
			first.Kill()
			r.dies(first)
			began := time.Now()
			r.until("the second one has done them", func() bool { return r.stats()["a"].Acked == 20 })
			r.Logf("taken over %v after the death, leases of %v", time.Since(began), lease)
			r.end(second)
			s := r.balanced("a", 20, 0)
			r.check(s.Rescues == 20, "%d rescues", s.Rescues)
		}},
	{Text: "Messages appended by one process are soon picked up by another.",
		Name: "PeerIsWoken", Needs: needs(store.CanProcesses), Test: func(r *Rig) { pickup(r, r.Peer(r)) }},
}

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
)

var peerScenarios = []Scenario{
	{Text: "Several processes on one store: nothing twice at once, lanes in order, nothing lost.",
		Name: "PeersShareTheWork", Needs: needs(store.CanProcesses, store.CanExclusive), Test: func(r *Rig) {
			const keys, each = 30, 40
			l := newLanes()
			r.append(inLanes("a", keys, each)...)
			var by [3]atomic.Int64
			var wg sync.WaitGroup
			for i, s := range []store.Store{r.store, r.in.Peer(r), r.in.Peer(r)} {
				e := r.startWith(s, dispatch.Config{UntilEmpty: true, Topics: []dispatch.Topic{topic("a", 4,
					func(_ context.Context, d *pawl.Delivery) error {
						by[i].Add(1)
						leave := l.enter(string(d.Key), int(d.Body[0]))
						time.Sleep(time.Duration(500+r.random(2000)) * time.Microsecond)
						if d.Attempt < deadMax && r.random(10) == 0 {
							leave(false)
							return errBroken
						}
						leave(true)
						return nil
					})}})
				wg.Go(func() {
					if err := r.ended(e); err != nil {
						r.Error(err)
					}
				})
			}
			wg.Wait()
			l.check(r)
			if s := r.balanced("a", keys*each, 0); s.Rescues != 0 {
				r.Errorf("%d rescues", s.Rescues)
			}
			if !store.Can(r.store, store.CanAnyProcess) {
				return // who has a part of a log has its work, and the last one to join gets its part late
			}
			for i := range by {
				if n := by[i].Load(); n < keys*each/20 {
					r.Errorf("process %d carried out %d of %d", i, n, keys*each)
				}
			}
		}},
	// Over a log the store itself is the member that has to die: its own tests kill whole processes.
	{Text: "Messages that a process held when it died are carried out by another process.",
		Name:  "PeerTakesOver",
		Needs: needs(store.CanProcesses, store.CanExclusive, store.CanDeadline, store.CanAnyProcess), Test: func(r *Rig) {
			r.append(numbered("a", 20)...)
			var held atomic.Int64
			first := r.start(r.store, mortal("a", 20,
				func(ctx context.Context, _ *pawl.Delivery) error {
					held.Add(1)
					<-ctx.Done()
					return nil
				}))
			r.until("the first one holds them all", func() bool { return held.Load() == 20 })
			var n atomic.Int64
			second := r.start(r.in.Peer(r), mortal("a", 20,
				func(context.Context, *pawl.Delivery) error {
					n.Add(1)
					return nil
				}))
			time.Sleep(2 * lease)
			if n.Load() != 0 {
				r.Fatalf("%d were delivered although their lease was kept", n.Load())
			}
			first.Kill()
			if err := r.ended(first); !errors.Is(err, dispatch.ErrKilled) {
				r.Fatal(err)
			}
			began := time.Now()
			r.until("the second one has done them", func() bool { return r.stats()["a"].Acked == 20 })
			r.Logf("taken over %v after the death, leases of %v", time.Since(began), lease)
			if err := r.end(second); err != nil {
				r.Fatal(err)
			}
			if s := r.balanced("a", 20, 0); s.Rescues != 20 {
				r.Errorf("%d rescues", s.Rescues)
			}
		}},
	{Text: "Messages appended by one process are soon picked up by another.",
		Name: "PeerIsWoken", Needs: needs(store.CanProcesses), Test: func(r *Rig) { pickup(r, r.in.Peer(r)) }},
}

package storetest

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var processSentences = []Sentence{
	{Text: "Once Append returned, any process can see and claim the message.",
		Name: "PeerSeesWhatWasAppended", Needs: needs(store.CanAnyProcess), Test: func(t *T) {
			peer := t.peer()
			for _, b := range numbered("", 20) {
				t.put(t.msg(b))
				peer.claims(b)
			}
		}},
	{Text: "A message is under at most one live lease across processes, a lane is held once across processes.",
		Name: "PeerRespectsTheLease", Needs: needs(store.CanAnyProcess, store.CanExclusive), Test: func(t *T) {
			peer := t.peer()
			t.put(t.msg("a"), t.keyed("k", "b"), t.keyed("k", "c"))
			ds := t.claimRun(10, 1)
			t.wantBodies(ds, "a", "b")
			peer.claims()
			t.ack(ds...)
			peer.claims("c")
			t.nothing()
		}},
	{Text: "A lease that ended is taken over by another process, and its token is stale everywhere.",
		Name: "PeerFences", Needs: needs(store.CanAnyProcess, store.CanDeadline), Test: func(t *T) {
			peer := t.peer()
			old := t.claimed("a")[0]
			t.expire()
			ds := peer.claims("a")
			t.lost(verdict(old, store.Ack))
			lost := t.extendLosing(lease, old)
			t.check(len(lost) == 1, "a stale token was extended")
			t.ack(ds...)
			peer.claims()
		}},
	{Text: "A token is good in every process.",
		Name: "PeerSettles", Needs: needs(store.CanAnyProcess), Test: func(t *T) {
			peer := t.peer()
			t.lane("k", "a", "b")
			ds := peer.claim(10)
			t.extend(lease, ds[0])
			t.ack(ds[0])
			peer.wantItems(peer.settle(verdict(ds[0], store.Ack), verdict(ds[1], store.Ack)), 0)
			t.nothing()
		}},
	{Text: "The order of a lane is that of the appends, whichever process made them.",
		Name: "PeerKeepsTheOrder", Needs: needs(store.CanAnyProcess), Test: func(t *T) {
			both, want := []*T{t, t.peer()}, numbered("", 12)
			for i, b := range want {
				both[i%2].put(t.keyed("k", b))
			}
			for i := 0; i < len(want); i += 3 {
				ds := both[i%2].claim(3)
				t.wantBodies(ds, want[i:i+3]...)
				t.ack(ds...)
			}
		}},
	{Text: "Unique keys and ids count across processes.",
		Name: "PeerSharesUniqueKeys", Needs: needs(store.CanAnyProcess, store.CanUnique), Test: func(t *T) {
			peer := t.peer()
			u := t.unique("a", "u", pawl.Unique{})
			first := t.put(u)[0]
			peer.duplicate(first, u)
			peer.duplicate(first, t.withID(first, "b"))
			t.ack(peer.claim(10)...)
			t.put(u)
		}},
	{Text: "A batch id is remembered across processes.",
		Name: "PeerSharesBatches", Needs: needs(store.CanAnyProcess, store.CanRepeatBatch), Test: func(t *T) {
			peer := t.peer()
			batch := store.NewBatch(t.msg("a"), t.msg("b"))
			first := t.appendBatch(batch)
			t.sameReceipts(peer.appendBatch(batch), first)
			ds := t.claims("a", "b")
			settled := store.NewBatch(verdict(ds[0], store.Retry))
			t.settleBatch(settled)
			t.wantItems(peer.settleBatch(settled))
			peer.wantCounts(peer.claims("a")[0], 2, 0) // after one retry that was sent twice
		}},
	{Text: "Settings of a topic hold in every process; the newest declaration wins.",
		Name: "PeerSharesSettings", Needs: needs(store.CanTopics), Test: func(t *T) {
			peer := t.peer()
			want := t.declare(store.Declaration{Order: store.OrderNone, Deadline: time.Minute})
			peer.wantSettings(want)
			want = peer.declare(store.Declaration{Deadline: 30 * time.Minute})
			t.wantSettings(want)
			want.Deadline = time.Hour
			peer.alter(want)
			t.conflict(errOf(t.topics().Alter(t.ctx(), want))) // the version is taken
			got := t.settings()
			t.check(got.Deadline == time.Hour && got.Version == want.Version+1, "settings %+v", got)
		}},
	{Text: "Pause stops claims in every process within two seconds, and resume lets them go on.",
		Name: "PauseStopsEveryProcess", Needs: needs(store.CanAnyProcess, store.CanTopics), Test: func(t *T) {
			peer := t.peer()
			t.put(t.msg("warm"))
			t.ack(peer.claims("warm")...) // so that it has the settings at hand
			t.pause(0)
			t.put(t.msg("a"))
			t.within2Seconds("the peer is paused", func() bool {
				ds := peer.claim(1)
				for _, d := range ds {
					t.release(d, 0)
				}
				return len(ds) == 0
			})
			t.resume()
			t.eventually("the peer goes on", func() bool { return len(peer.claim(1)) == 1 })
		}},
	{Text: "Close ends one handle only; its leases stay, and end by themselves.",
		Name: "PeerOutlivesClose", Needs: needs(store.CanAnyProcess), Test: func(t *T) {
			peer := t.peer()
			t.put(t.msg("a"), t.msg("b"))
			d := t.claimOne()
			t.must(t.Store.Close())
			peer.claims("b")
			peer.release(d, 0) // the lease stays
			peer.claims("a")
			t.expire()
			peer.claims("a", "b")
		}},
}

// peer is the test, at another handle of its data, as a second process has one.
func (t *T) peer() *T { return t.at(t.Peer(t)) }

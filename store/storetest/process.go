package storetest

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var processSentences = []Sentence{
	{Text: "Once Append returned, any process can see and claim the message.",
		Name: "PeerSeesWhatWasAppended", Needs: needs(store.CanAnyProcess), Test: func(t *T) {
			peer := t.Peer(t)
			for _, b := range numbered("", 20) {
				t.put(t.msg(b))
				ds := t.peerClaim(peer, 10)
				t.wantBodies(ds, b)
			}
		}},
	{Text: "A message is under at most one live lease across processes, a lane is held once across processes.",
		Name: "PeerRespectsTheLease", Needs: needs(store.CanAnyProcess, store.CanExclusive), Test: func(t *T) {
			peer := t.Peer(t)
			t.put(t.msg("a"), t.keyed("k", "b"), t.keyed("k", "c"))
			ds := t.claimRun(10, 1)
			t.wantBodies(ds, "a", "b")
			t.wantBodies(t.peerClaim(peer, 10))
			t.ack(ds...)
			t.wantBodies(t.peerClaim(peer, 10), "c")
			t.nothing()
		}},
	{Text: "A lease that ended is taken over by another process, and its token is stale everywhere.",
		Name: "PeerFences", Needs: needs(store.CanAnyProcess, store.CanDeadline), Test: func(t *T) {
			peer := t.Peer(t)
			t.put(t.msg("a"))
			old := t.claimOne()
			t.expire()
			ds := t.peerClaim(peer, 10)
			t.wantBodies(ds, "a")
			t.lost(verdict(old, store.Ack))
			if lost := t.extendLosing(lease, old); len(lost) != 1 {
				t.Fatal("a stale token was extended")
			}
			t.ack(ds...)
			t.wantBodies(t.peerClaim(peer, 10))
		}},
	{Text: "A token is good in every process.",
		Name: "PeerSettles", Needs: needs(store.CanAnyProcess), Test: func(t *T) {
			peer := t.Peer(t)
			t.lane("k", "a", "b")
			ds := t.peerClaim(peer, 10)
			t.extend(lease, ds[0])
			t.ack(ds[0])
			refused, err := peer.Settle(t.ctx(), store.NewBatch(verdict(ds[0], store.Ack), verdict(ds[1], store.Ack)))
			if t.must(err); len(refused) != 1 || refused[0].Index != 0 {
				t.Fatalf("refused %v; want item 0", refused)
			}
			t.nothing()
		}},
	{Text: "The order of a lane is that of the appends, whichever process made them.",
		Name: "PeerKeepsTheOrder", Needs: needs(store.CanAnyProcess), Test: func(t *T) {
			peer := t.Peer(t)
			want := numbered("", 12)
			for i, b := range want {
				s := t.Store
				if i%2 == 1 {
					s = peer
				}
				t.appendTo(s, t.keyed("k", b))
			}
			for i := 0; i < len(want); i += 3 {
				ds := t.claimFrom([]store.Store{t.Store, peer}[i%2], store.Lease{For: lease},
					store.Want{Topic: t.Topic, Limit: 3})
				t.wantBodies(ds, want[i:i+3]...)
				t.ack(ds...)
			}
		}},
	{Text: "Unique keys and ids count across processes.",
		Name: "PeerSharesUniqueKeys", Needs: needs(store.CanAnyProcess, store.CanUnique), Test: func(t *T) {
			peer := t.Peer(t)
			u := t.unique("a", "u", pawl.Unique{})
			first := t.put(u)[0]
			if r := t.appendTo(peer, u)[0]; r.DuplicateOf != first {
				t.Fatalf("receipt %+v; want a duplicate of %q", r, first)
			}
			if r := t.appendTo(peer, t.withID(first, "b"))[0]; r.DuplicateOf != first {
				t.Fatalf("receipt %+v; want a duplicate of %q", r, first)
			}
			t.ack(t.peerClaim(peer, 10)...)
			t.put(u)
		}},
	{Text: "A batch id is remembered across processes.",
		Name: "PeerSharesBatches", Needs: needs(store.CanAnyProcess, store.CanRepeatBatch), Test: func(t *T) {
			peer := t.Peer(t)
			batch := store.NewBatch(t.msg("a"), t.msg("b"))
			first, err := t.Store.Append(t.ctx(), batch)
			t.must(err)
			again, err := peer.Append(t.ctx(), batch)
			t.must(err)
			t.sameReceipts(again, first)
			ds := t.claims("a", "b")
			settled := store.NewBatch(verdict(ds[0], store.Retry))
			_, err = t.Store.Settle(t.ctx(), settled)
			t.must(err)
			refused, err := peer.Settle(t.ctx(), settled)
			if t.must(err); len(refused) > 0 {
				t.Fatalf("refused %v; the first time it was taken", refused)
			}
			if d := t.peerClaim(peer, 10); len(d) != 1 || d[0].Attempt != 2 {
				t.Fatalf("claimed %q after one retry that was sent twice", bodiesOf(d))
			}
		}},
	{Text: "Settings of a topic hold in every process; two that disagree conflict.",
		Name: "PeerSharesSettings", Needs: needs(store.CanTopics), Test: func(t *T) {
			peer := t.Peer(t)
			topics, ok := store.As[store.Topics](peer)
			if !ok {
				t.Fatal("the peer has no topics")
			}
			want := t.declare(store.Declaration{Order: store.OrderNone, Deadline: time.Minute})
			got, err := topics.Topic(t.ctx(), t.Topic)
			if t.must(err); got != want {
				t.Fatalf("the peer sees %+v; want %+v", got, want)
			}
			_, err = topics.Declare(t.ctx(), store.Declaration{Name: t.Topic, Deadline: time.Hour})
			t.conflict(err)
			want.Deadline = time.Hour
			_, err = topics.Alter(t.ctx(), want)
			t.must(err)
			_, err = t.topics().Alter(t.ctx(), want) // the version is taken
			t.conflict(err)
			if got := t.settings(); got.Deadline != time.Hour || got.Version != want.Version+1 {
				t.Fatalf("settings %+v", got)
			}
		}},
	{Text: "Pause stops claims in every process within two seconds, and resume lets them go on.",
		Name: "PauseStopsEveryProcess", Needs: needs(store.CanAnyProcess, store.CanTopics), Test: func(t *T) {
			peer := t.Peer(t)
			t.put(t.msg("warm"))
			ds := t.peerClaim(peer, 1) // so that it has the settings at hand
			t.wantBodies(ds, "warm")
			t.ack(ds...)
			t.pause(0)
			start := time.Now()
			t.put(t.msg("a"))
			t.eventually("the peer is paused", func() bool {
				ds := t.peerClaim(peer, 1)
				for _, d := range ds {
					t.release(d, 0)
				}
				return len(ds) == 0
			})
			if took := time.Since(start); took > 4*time.Second { // two, and what a busy machine adds
				t.Fatalf("the peer claimed for %v", took)
			}
			t.resume()
			t.eventually("the peer goes on", func() bool { return len(t.peerClaim(peer, 1)) == 1 })
		}},
	{Text: "Close ends one handle only; its leases stay, and end by themselves.",
		Name: "PeerOutlivesClose", Needs: needs(store.CanAnyProcess), Test: func(t *T) {
			peer := t.Peer(t)
			t.put(t.msg("a"), t.msg("b"))
			d := t.claimOne()
			t.must(t.Store.Close())
			t.wantBodies(t.peerClaim(peer, 10), "b")
			refused, err := peer.Settle(t.ctx(), store.NewBatch(verdict(d, store.Release)))
			if t.must(err); len(refused) > 0 {
				t.Fatalf("refused %v; the lease stays", refused)
			}
			t.wantBodies(t.peerClaim(peer, 10), "a")
			t.expire()
			t.wantBodies(t.peerClaim(peer, 10), "a", "b")
		}},
}

func (t *T) peerClaim(peer store.Store, n int) []pawl.Delivery {
	t.Helper()
	return t.claimFrom(peer, store.Lease{For: lease, Owner: "peer", Suspects: store.MaxSuspects},
		store.Want{Topic: t.Topic, Limit: n})
}

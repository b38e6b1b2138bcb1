package storetest

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var extendSentences = []Sentence{
	{Text: "Extend lets a lease end no sooner than that long from now.",
		Name: "ExtendProlongs", Test: func(t *T) {
			t.put(t.msg("a"), t.msg("b"))
			a := t.claimOne()
			t.claimOne() // b: not extended
			t.Advance(time.Minute)
			t.extend(lease, a)
			t.Advance(90 * time.Second)
			t.claims("b")
			t.Advance(60 * time.Second)
			t.claims("a")
		}},
	{Text: "Extend never lets a lease end sooner than it would have.",
		Name: "ExtendNeverShortens", Test: func(t *T) {
			a := t.claimed("a")[0]
			t.extend(time.Second, a)
			t.Advance(time.Minute)
			t.nothing()
			t.ack(a)
		}},
	{Text: "No Extend passes the hard deadline: the moment of the claim and the topic's Deadline.",
		Name: "ExtendStopsAtTheDeadline", Needs: needs(store.CanTopics), Test: func(t *T) {
			t.declare(store.Declaration{Deadline: 3 * time.Minute})
			a := t.claimed("a")[0]
			for range 2 {
				t.Advance(80 * time.Second)
				t.extend(lease, a)
				t.nothing()
			}
			t.Advance(30 * time.Second)
			t.claims("a")
			t.lost(verdict(a, store.Ack))
		}},
	{Text: "Extend returns the tokens whose lease is gone, as a result, and extends the others.",
		Name: "ExtendReportsWhatIsLost", Test: func(t *T) {
			t.put(t.msg("a"), t.msg("b"), t.msg("c"))
			acked, lost := t.claimOne(), t.claimOne()
			t.ack(acked)
			t.expire()
			t.wantBodies(t.claim(1), "b")
			live := t.claimOne()
			got := t.extendLosing(lease, acked, live, lost)
			want := []pawl.Token{acked.Token, lost.Token}
			t.check(slices.Equal(got, want), "extend lost %v; want %v", got, want)
			t.Advance(time.Minute)
			t.extend(lease, live)
			t.Advance(90 * time.Second)
			t.claims("b")
			t.ack(live)
		}},
	{Text: "An extend with a stale token changes nothing.",
		Name: "ExtendOfALostLeaseChangesNothing", Test: func(t *T) {
			old := t.claimed("a")[0]
			t.expire()
			t.claimOne()
			got := t.extendLosing(3*time.Minute, old)
			t.check(slices.Equal(got, []pawl.Token{old.Token}), "extend lost %v; want the stale token", got)
			t.Advance(lease + 10*time.Second)
			t.claims("a")
		}},
	{Text: "Extending one token of a run extends the run.",
		Name: "ExtendOfOneExtendsTheRun", Test: func(t *T) {
			ds := t.claimedRun("k", "a", "b", "c")
			t.ack(ds[0])
			t.Advance(time.Minute)
			t.extend(lease, ds[2])
			t.Advance(90 * time.Second)
			t.nothing()
			t.ack(ds[1], ds[2])
		}},
}

// extend extends leases, none of which may be lost.
func (t *T) extend(by time.Duration, ds ...pawl.Delivery) {
	lost := t.extendLosing(by, ds...)
	t.check(len(lost) == 0, "extend lost %v", lost)
}

func (t *T) extendLosing(by time.Duration, ds ...pawl.Delivery) (lost []pawl.Token) {
	tokens := each(ds, func(d pawl.Delivery) pawl.Token { return d.Token })
	lost, err := t.Store.Extend(t.ctx(), by, tokens...)
	t.must(err)
	return lost
}

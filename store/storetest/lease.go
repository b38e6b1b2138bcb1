package storetest

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var leaseSentences = []Sentence{
	{Text: "A message is under at most one live lease.",
		Name: "OneLiveLease", Needs: needs(store.CanExclusive), Test: func(t *T) {
			t.claimed("a", "b")
			t.nothing()
			t.later(time.Minute)
		}},
	{Text: "A token names one message under one lease; deliveries of a run share lane and fence.",
		Name: "TokensAreUnique", Test: func(t *T) {
			t.put(t.msg("a"), t.msg("b"), t.keyed("k", "c"), t.keyed("k", "d"))
			ds := t.claims("a", "b", "c", "d")
			seen := map[pawl.Token]bool{}
			for _, d := range ds {
				t.check(!seen[d.Token] && d.Token.Fence > 0, "token %v is not a new one", d.Token)
				seen[d.Token] = true
			}
			if c, d := ds[2].Token, ds[3].Token; c.Lane != d.Lane || c.Fence != d.Fence {
				t.Fatalf("one run, but the tokens are %v and %v", c, d)
			}
			a, b := ds[0].Token, ds[1].Token
			t.check(a.Lane != b.Lane, "two lanes, but the tokens are %v and %v", a, b)
		}},
	{Text: "A fence is a random 63-bit number, new with every claim.",
		Name: "FenceIsRandom", Test: func(t *T) {
			t.put(t.msg("a"))
			seen := map[int64]bool{}
			small := 0
			for range 32 {
				d := t.claimOne()
				t.check(!seen[d.Token.Fence] && d.Token.Fence > 0, "fence %d is not a new one", d.Token.Fence)
				if seen[d.Token.Fence] = true; d.Token.Fence < 1<<59 { // one in 16, if it is random
					small++
				}
				t.release(d, 0)
			}
			t.check(small <= 16, "%d of 32 fences are small: they are not random 63-bit numbers", small)
		}},
	{Text: "What was acked is never delivered again.",
		Name: "AckIsFinal", Test: func(t *T) {
			d := t.claimed("a")[0]
			t.ack(d)
			t.nothing()
			t.later(expiry)
			t.lost(verdict(d, store.Ack))
		}},
	{Text: "A lease has an end, and what ended is claimable again.",
		Name: "LeaseEnds", Needs: needs(store.CanDeadline), Test: func(t *T) {
			t.put(t.msg("a"))
			t.claimWith(store.Lease{For: time.Minute}, store.Want{Topic: t.Topic, Limit: 1})
			t.later(40 * time.Second)
			t.later(21*time.Second, "a")
		}},
	{Text: "When the lease of a run ends, what was left of the run is claimable again, in order.",
		Name: "LeaseEndsForTheWholeRun", Needs: needs(store.CanDeadline), Test: func(t *T) {
			ds := t.claimedRun("k", "a", "b", "c")
			t.ack(ds[0])
			t.later(expiry, "b", "c")
		}},
	{Text: "The topic's deadline bounds a lease from the start, and the delivery says so.",
		Name: "LeaseNeverOutlivesTheDeadline", Needs: needs(store.CanDeadline, store.CanTopics), Test: func(t *T) {
			t.declare(store.Declaration{Deadline: time.Minute})
			t.put(t.msg("a"))
			d := t.claimWith(store.Lease{For: time.Hour}, store.Want{Topic: t.Topic, Limit: 1})[0]
			t.check(d.LeaseFor == time.Minute && d.Deadline == time.Minute,
				"lease for %v with a deadline of %v; want a minute both", d.LeaseFor, d.Deadline)
			t.later(40 * time.Second)
			t.later(21*time.Second, "a")
		}},
	{Text: "A settle with a stale token changes nothing and is reported as a result, not as an error.",
		Name: "SettleAfterLossIsFenced", Needs: needs(store.CanDeadline), Test: func(t *T) {
			for _, v := range []store.Verdict{store.Ack, store.Retry, store.Dead, store.Release} {
				t.put(t.msg(v.String()))
				old := t.claimOne()
				t.expire()
				now := t.claimOne()
				t.check(old.Token != now.Token, "a new lease has the old token %v", old.Token)
				t.lost(verdict(old, v))
				t.nothing()
				t.ack(now)
			}
			t.nothing()
		}},
	{Text: "A token settles once: whatever follows is stale, in the same batch and later.",
		Name: "SettleTwiceIsFenced", Test: func(t *T) {
			ds := t.claimed("a", "b")
			t.wantItems(t.settle(verdict(ds[0], store.Ack), verdict(ds[1], store.Release),
				verdict(ds[0], store.Retry)), 2)
			t.lost(verdict(ds[0], store.Dead), verdict(ds[1], store.Ack))
			t.claims("b")
		}},
	{Text: "A token that the store never gave is stale.",
		Name: "UnknownTokenIsStale", Test: func(t *T) {
			d := t.claimed("a")[0]
			other := d
			other.Token.Fence++
			nobody := d
			nobody.Token = pawl.Token{Fence: 1, Lane: 1 << 40, Seq: 1 << 40}
			none := d
			none.Token = pawl.Token{}
			t.lost(verdict(other, store.Ack), verdict(nobody, store.Dead), verdict(none, store.Release))
			lost, err := t.Store.Extend(t.ctx(), time.Minute, other.Token, d.Token, nobody.Token, none.Token)
			t.must(err)
			want := []pawl.Token{other.Token, nobody.Token, none.Token}
			t.check(slices.Equal(lost, want), "extend lost %v; want %v", lost, want)
			t.ack(d)
		}},
	{Text: "Between the end of a lease and the next claim a settle takes effect or is reported as lost, never neither, never both.",
		Name: "EndedLeaseMayStillSettle", Needs: needs(store.CanDeadline), Test: func(t *T) {
			d := t.claimed("a")[0]
			t.expire()
			if len(t.settle(verdict(d, store.Ack))) > 0 {
				t.claims("a")
			} else {
				t.nothing()
			}
		}},
	{Text: "A delivery says when it was stored, how long it waited, and for how long it is leased, by the store's clock.",
		Name: "DeliveryTellsItsTimes", Test: func(t *T) {
			t.put(t.msg("a"))
			t.Advance(3 * time.Minute)
			t.put(t.msg("b"))
			ds := t.later(time.Minute, "a", "b")
			a, b := ds[0], ds[1]
			t.near("what a waited", a.Waited, 4*time.Minute)
			t.near("what b waited", b.Waited, time.Minute)
			t.near("the time between a and b", b.EnqueuedAt.Sub(a.EnqueuedAt), 3*time.Minute)
			t.check(a.LeaseFor == lease && a.Deadline == store.DefaultDeadline,
				"leased for %v with a deadline of %v; want %v and %v", a.LeaseFor, a.Deadline, lease,
				store.DefaultDeadline)
			t.wantCounts(a, 1, 0)
		}},
}

var extendSentences = []Sentence{
	{Text: "Extend lets a lease end no sooner than that long from now.",
		Name: "ExtendProlongs", Test: func(t *T) {
			t.put(t.msg("a"), t.msg("b"))
			a := t.claimOne()
			t.claimOne() // b: not extended
			t.Advance(time.Minute)
			t.extend(lease, a)
			t.later(90*time.Second, "b")
			t.later(60*time.Second, "a")
		}},
	{Text: "Extend never lets a lease end sooner than it would have.",
		Name: "ExtendNeverShortens", Test: func(t *T) {
			a := t.claimed("a")[0]
			t.extend(time.Second, a)
			t.later(time.Minute)
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
			t.later(30*time.Second, "a")
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
			t.later(90*time.Second, "b")
			t.ack(live)
		}},
	{Text: "An extend with a stale token changes nothing.",
		Name: "ExtendOfALostLeaseChangesNothing", Test: func(t *T) {
			old := t.claimed("a")[0]
			t.expire()
			t.claimOne()
			got := t.extendLosing(3*time.Minute, old)
			t.check(slices.Equal(got, []pawl.Token{old.Token}), "extend lost %v; want the stale token", got)
			t.later(lease+10*time.Second, "a")
		}},
	{Text: "Extending one token of a run extends the run.",
		Name: "ExtendOfOneExtendsTheRun", Test: func(t *T) {
			ds := t.claimedRun("k", "a", "b", "c")
			t.ack(ds[0])
			t.Advance(time.Minute)
			t.extend(lease, ds[2])
			t.later(90 * time.Second)
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

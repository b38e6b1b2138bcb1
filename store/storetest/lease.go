package storetest

import (
	"time"

	"github.com/pawl-dev/pawl/store"
)

func leaseSentences() []Sentence {
	return []Sentence{
		{
			Name: "OneLiveLease", Test: oneLiveLease,
			Text: "A message is under at most one live lease.",
		},
		{
			Name: "AckIsFinal", Test: ackIsFinal,
			Text: "What was acked is never delivered again.",
		},
		{
			Name: "LeaseEnds", Test: leaseEnds, Needs: needs(store.CanDeadline),
			Text: "A lease has an end; what ended is claimable again.",
		},
		{
			Name: "SettleAfterLossIsFenced", Test: settleAfterLossIsFenced, Needs: needs(store.CanDeadline),
			Text: "A settle with a stale token changes nothing and is reported as a result.",
		},
	}
}

func oneLiveLease(t *T) {
	t.put(t.msg("a"), t.msg("b"))
	first := t.claims("a", "b")
	if first[0].Token == first[1].Token {
		t.Fatalf("two deliveries have one token: %v", first[0].Token)
	}
	t.nothing()
}

func ackIsFinal(t *T) {
	t.put(t.msg("a"))
	d := t.claimOne()
	t.ack(d)
	t.nothing()
	t.expire()
	t.nothing()
	t.lost(verdict(d, store.Ack))
}

func leaseEnds(t *T) {
	t.put(t.msg("a"))
	t.claimFrom(t.Store, store.Lease{For: time.Minute}, store.Want{Topic: t.Topic, Limit: 1})
	t.Advance(50 * time.Second)
	t.nothing()
	t.Advance(11 * time.Second)
	t.claims("a")
}

func settleAfterLossIsFenced(t *T) {
	for _, v := range []store.Verdict{store.Ack, store.Retry, store.Dead, store.Release} {
		t.put(t.msg(v.String()))
		old := t.claimOne()
		t.expire()
		now := t.claimOne()
		if old.Token == now.Token {
			t.Fatalf("a new lease has the old token %v", old.Token)
		}
		t.lost(verdict(old, v))
		t.ack(now)
	}
	t.nothing()
}

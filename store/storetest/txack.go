package storetest

import (
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// ackTx acks in a transaction of the caller; false if the backend does not.
func (t *T) ackTx(d pawl.Delivery, commit bool, want error) bool {
	if t.AckTx == nil {
		return false
	}
	err := t.AckTx(t, d.Token, commit)
	t.check(errors.Is(err, want), "ack in a transaction: %v, want %v", err, want)
	return true
}

var txAckSentences = []Sentence{
	{Text: "What a caller's transaction acks is acked if it commits: its run goes on, and its lane is free after the last of it.",
		Name: "TxAckCommits", Test: func(t *T) {
			t.lane("k", "a", "b")
			t.put(t.msg("solo"))
			ds := t.claims("a", "b", "solo")
			for _, d := range ds {
				if !t.ackTx(d, true, nil) {
					return
				}
				t.lost(verdict(d, store.Release))
			}
			t.lane("k", "c")
			t.ack(t.claims("c")...)
			t.expire()
			t.nothing()
		}},
	{Text: "An ack in a transaction that is rolled back changes nothing: the delivery can be settled as before.",
		Name: "TxAckRollsBack", Test: func(t *T) {
			t.lane("k", "a", "b")
			t.put(t.msg("solo"))
			ds := t.claims("a", "b", "solo")
			for _, d := range ds {
				if !t.ackTx(d, false, nil) {
					return
				}
			}
			t.nothing()
			t.ack(ds[0], ds[2])
			t.release(ds[1], 0)
			t.ack(t.claims("b")...)
		}},
	{Text: "An ack in a transaction is fenced: whose lease has ended is told that it is lost, and changes nothing.",
		Name: "TxAckIsFenced", Needs: needs(store.CanDeadline), Test: func(t *T) {
			t.lane("k", "a")
			t.put(t.msg("solo"))
			old := t.claims("a", "solo")
			t.expire()
			now := t.claims("a", "solo")
			for _, d := range old {
				if !t.ackTx(d, true, pawl.ErrLeaseLost) {
					return
				}
			}
			t.ack(now...)
		}},
}

package storetest

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var runSentences = []Sentence{
	{Text: "A claim takes a run: the first messages of a lane, in order, under one lease.",
		Name: "RunIsTheHeadOfTheLane", Test: func(t *T) {
			t.lane("k", numbered("", 5)...)
			ds := t.claimRun(10, 3)
			t.wantBodies(ds, "0", "1", "2")
			for _, d := range ds {
				t.check(d.Token.Fence == ds[0].Token.Fence && d.Token.Lane == ds[0].Token.Lane,
					"one run, several leases: %v and %v", ds[0].Token, d.Token)
			}
			t.nothing()
			t.ack(ds...)
			t.claims("3", "4")
		}},
	{Text: "A run ends when its last message is acked, and not before.",
		Name: "RunEndsWithItsLastAck", Test: func(t *T) {
			ds := t.claimedRun("k", "a", "b")
			t.lane("k", "c")
			t.ack(ds[0])
			t.nothing()
			t.ack(ds[1])
			t.claims("c")
		}},
	{Text: "The messages of a run are settled one by one; each ack leaves the rest leased.",
		Name: "RunIsAckedPieceByPiece", Test: func(t *T) {
			t.lane("k", "a", "b", "c")
			for _, d := range t.claims("a", "b", "c") {
				t.nothing()
				t.ack(d)
				t.lost(verdict(d, store.Ack))
			}
			t.nothing()
		}},
	{Text: "A run ends with the first settlement that is not a plain ack; what was left of it is claimable again, and its tokens are stale.",
		Name: "RunEndsWithTheFirstOther", Test: func(t *T) {
			for _, v := range []store.Verdict{store.Retry, store.Release, store.Dead} {
				t.lane(v.String(), "a", "b", "c")
				ds := t.claims("a", "b", "c")
				t.ack(ds[0])
				t.settled(verdict(ds[1], v))
				t.lost(verdict(ds[1], store.Ack), verdict(ds[2], store.Ack))
				if v == store.Dead {
					ds = t.claims("c")
				} else {
					ds = t.claims("b", "c")
				}
				t.ack(ds...)
			}
			t.nothing()
		}},
	{Text: "An ack with Hold is not a plain one: it ends the run, and the rest waits for the hold.",
		Name: "RunEndsWithAHold", Needs: needs(store.CanDelay), Test: func(t *T) {
			ds := t.claimedRun("k", "a", "b", "c")
			t.hold(ds[0], time.Minute)
			t.lost(verdict(ds[1], store.Ack), verdict(ds[2], store.Ack))
			t.nothing()
			t.later(2*time.Minute, "b", "c")
		}},
	{Text: "An ack that emits is a plain one: the run goes on.",
		Name: "EmitLeavesTheRunOpen", Needs: needs(store.CanEmitAtomic), Test: func(t *T) {
			ds := t.claimedRun("k", "a", "b", "c")
			t.emit(ds[0], pawl.Message{Topic: "other"})
			t.nothing()
			t.ack(ds[1], ds[2])
		}},
	{Text: "Settlements of one run in one batch take effect in the order of the lane, in whatever order they are given.",
		Name: "RunSettlesInLaneOrder", Test: func(t *T) {
			ds := t.claimedRun("k", "a", "b", "c")
			retry := verdict(ds[2], store.Retry)
			t.settled(retry, verdict(ds[1], store.Ack), verdict(ds[0], store.Ack))
			ds = t.claims("c")
			t.wantCounts(ds[0], 2, 0)
		}},
	{Text: "A settlement that follows the end of its run in one batch is refused with ErrLeaseLost.",
		Name: "RunRefusesAfterItsEnd", Test: func(t *T) {
			ds := t.claimedRun("k", "a", "b", "c", "d")
			refused := t.settle(verdict(ds[3], store.Dead), verdict(ds[2], store.Ack), verdict(ds[1], store.Release),
				verdict(ds[0], store.Ack))
			t.wantLost(refused, 0, 1)
			t.claims("b", "c", "d")
		}},
	{Text: "The end of a run in a batch concerns its own lane only.",
		Name: "BatchMixesLanes", Test: func(t *T) {
			t.lane("k", "a", "b")
			t.lane("l", "c", "d")
			t.put(t.msg("e"), t.msg("f"))
			ds := t.claims("a", "b", "c", "d", "e", "f")
			refused := t.settle(
				verdict(ds[4], store.Retry), verdict(ds[0], store.Release), verdict(ds[2], store.Ack),
				verdict(ds[1], store.Ack), verdict(ds[3], store.Ack), verdict(ds[5], store.Ack))
			t.wantItems(refused, 3)
			t.claims("a", "b", "e")
		}},
}

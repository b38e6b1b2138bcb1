package storetest

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var markAckSentences = []Sentence{
	{Text: "What an ack marks is written with it, as PutMarks writes it: what is in the way of a mark leaves that one out, and the ack and the others stand.",
		Name: "MarksComeWithTheAck", Test: func(t *T) {
			t.putMarks(mark("there", "old"), mark("swapped", "old"), mark("gone", "old"))
			d := t.claimed("parent")[0]
			swap, anyway, gone, late := mark("swapped", "new"), mark("any", "new"), mark("gone", ""), mark("late", "new")
			swap.If, anyway.If = t.wantMark("swapped", "old").Version, pawl.AnyVersion
			gone.If, gone.Remove = pawl.AnyVersion, true
			late.If = 1 // no such mark
			brief := mark("brief", "new")
			brief.For = time.Hour
			t.settled(marking(d, mark("there", "new"), mark("fresh", "new"), swap, anyway, gone, late, brief))
			t.nothing()
			t.wantMarks("scope", map[string]string{"there": "old", "fresh": "new", "swapped": "new", "any": "new",
				"brief": "new"},
				"there", "fresh", "swapped", "any", "gone", "late", "brief")
			t.Advance(2 * time.Hour)
			t.noMark("brief")
			t.lost(marking(d, mark("twice", "new")))
			t.noMark("twice")
		}},
	{Text: "What a lost settlement marks is not written.",
		Name: "MarksNeverWithoutTheAck", Needs: needs(store.CanDeadline), Test: func(t *T) {
			old := t.claimed("parent")[0]
			t.expire()
			now := t.claimOne()
			t.lost(marking(old, mark("late", "new")))
			t.noMark("late")
			t.settled(marking(now, mark("late", "newer")))
			t.wantMark("late", "newer")
		}},
	{Text: "Marks of one key by several acks of a batch are written in the order of the acked messages of a lane.",
		Name: "MarksOfABatchFollow", Test: func(t *T) {
			t.put(t.keyed("a", "0"), t.keyed("a", "1"), t.keyed("b", "2"))
			var items []store.Settlement
			for i, d := range t.claim(3) {
				last := mark("last of "+string(d.Key), fmt.Sprint(i))
				last.If = pawl.AnyVersion
				items = append(items, marking(d, mark("first of "+string(d.Key), fmt.Sprint(i)), last))
			}
			t.check(len(items) == 3, "%d deliveries; want 3", len(items))
			t.settled(items...)
			t.nothing()
			t.wantMarks("scope", map[string]string{"first of a": "0", "last of a": "1", "first of b": "2",
				"last of b": "2"},
				"first of a", "last of a", "first of b", "last of b")
		}},
	{Text: "A settlement that marks with another verdict than ack, what no store takes, or a key twice, is refused by itself and changes nothing.",
		Name: "MarksGoWithAckOnly", Test: func(t *T) {
			for _, v := range []store.Verdict{store.Retry, store.Dead, store.Release} {
				t.put(t.msg(v.String()))
				d := t.claimOne()
				s := marking(d, mark("k", "v"))
				s.Verdict = v
				t.refusedAlone(s)
				t.nothing()
				t.ack(d)
			}
			for _, marks := range [][]pawl.Mark{{mark("", "v")}, {mark("k", "v"), mark("k", "w")}} {
				d := t.claimed("again")[0]
				t.refusedAlone(marking(d, marks...))
				t.nothing()
				t.ack(d)
			}
			t.noMark("k")
		}},
	{Text: "What one process marked, another one sees at once.",
		Name: "MarksAreShared", Needs: needs(store.CanProcesses), Test: func(t *T) {
			peer := t.peer()
			version := t.putMarks(mark("k", "v"))[0]
			m := peer.wantMark("k", "v")
			t.check(m.Version == version, "the peer sees %+v", m)
			swap := markIf("k", "w", version)
			peer.putMarks(swap, mark("l", "v"))
			t.notPut(swap, mark("l", "late"))
			t.must(peer.marks().Forget(t.ctx(), "scope"))
			t.wantListed("scope", "")
		}},
	{Text: "Marks are there when the store is opened again.",
		Name: "MarksSurvive", Needs: needs(store.CanSurvive), Test: func(t *T) {
			version := t.putMarks(mark("k", "v"))[0]
			t.Store = t.Reopen(t)
			m := t.wantMark("k", "v")
			t.check(m.Version == version, "version %d after opening again; it was %d", m.Version, version)
		}},
}

// marking acks a delivery with marks.
func marking(d pawl.Delivery, marks ...pawl.Mark) store.Settlement {
	return store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack, Marks: marks}
}

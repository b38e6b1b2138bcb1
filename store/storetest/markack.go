package storetest

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// marking acks a delivery with marks.
func marking(d pawl.Delivery, marks ...pawl.Mark) store.Settlement {
	s := verdict(d, store.Ack)
	s.Marks = marks
	return s
}

func marksComeWithTheAck(t *T) {
	t.putMarks(mark("there", "old"), mark("swapped", "old"), mark("gone", "old"))
	t.put(t.msg("parent"))
	d := t.claimOne()
	swap, anyway, gone, late := mark("swapped", "new"), mark("any", "new"), mark("gone", ""), mark("late", "new")
	swap.If, anyway.If = t.wantMark("swapped", "old").Version, pawl.AnyVersion
	gone.If, gone.Remove = pawl.AnyVersion, true
	late.If = 1 // no such mark
	brief := mark("brief", "new")
	brief.For = time.Hour
	t.settled(marking(d, mark("there", "new"), mark("fresh", "new"), swap, anyway, gone, late, brief))
	t.nothing()
	t.wantMarks("scope", map[string]string{"there": "old", "fresh": "new", "swapped": "new", "any": "new", "brief": "new"},
		"there", "fresh", "swapped", "any", "gone", "late", "brief")
	t.Advance(2 * time.Hour)
	t.noMark("brief")
	t.lost(marking(d, mark("twice", "new")))
	t.noMark("twice")
}

func marksNeverWithoutTheAck(t *T) {
	t.put(t.msg("parent"))
	old := t.claimOne()
	t.expire()
	now := t.claimOne()
	t.lost(marking(old, mark("late", "new")))
	t.noMark("late")
	t.settled(marking(now, mark("late", "newer")))
	t.wantMark("late", "newer")
}

func marksOfABatchFollow(t *T) {
	t.put(t.keyed("a", "0"), t.keyed("a", "1"), t.keyed("b", "2"))
	var items []store.Settlement
	for i, d := range t.claim(3) {
		last := mark("last of "+string(d.Key), fmt.Sprint(i))
		last.If = pawl.AnyVersion
		items = append(items, marking(d, mark("first of "+string(d.Key), fmt.Sprint(i)), last))
	}
	if len(items) != 3 {
		t.Fatalf("%d deliveries; want 3", len(items))
	}
	t.settled(items...)
	t.nothing()
	t.wantMarks("scope", map[string]string{"first of a": "0", "last of a": "1", "first of b": "2", "last of b": "2"},
		"first of a", "last of a", "first of b", "last of b")
}

func marksGoWithAckOnly(t *T) {
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
		t.put(t.msg("again"))
		d := t.claimOne()
		t.refusedAlone(marking(d, marks...))
		t.nothing()
		t.ack(d)
	}
	t.noMark("k")
}

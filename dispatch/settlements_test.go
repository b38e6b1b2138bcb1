package dispatch

import (
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// What a full call of Settle leaves behind stays in order; what is of a run
// that is in the call waits for it, and is nowhere else.
func TestWhatAFullCallLeavesStaysInOrder(t *testing.T) {
	const extra = 300
	d := assemble(&engine{settleKick: kick()})
	runs := [3]*run{{}, {}, {}}
	put := func(i int, r *run) {
		st := store.Settlement{Token: pawl.Token{Seq: int64(i)}, Verdict: store.Ack}
		d.gathered.add(&st, outcome{run: r, n: 1})
	}
	for i := range maxSettle {
		put(i, runs[i%2])
	}
	for i := range extra {
		put(maxSettle+i, runs[i%3]) // of the first two runs, which are in the call, and of the third
	}
	first := d.takeGathered()
	if len(first.items) != maxSettle || first.items[maxSettle-1].Token.Seq != maxSettle-1 {
		t.Fatalf("the call has %d items, the last is %d", len(first.items), first.items[len(first.items)-1].Token.Seq)
	}
	if len(d.gathered.items) != extra/3 || len(d.gathered.outs) != extra/3 {
		t.Fatalf("%d and %d are left, want %d", len(d.gathered.items), len(d.gathered.outs), extra/3)
	}
	for i := range d.gathered.items {
		if want := int64(maxSettle + 3*i + 2); d.gathered.items[i].Token.Seq != want || d.gathered.outs[i].run != runs[2] {
			t.Fatalf("item %d is %d, want %d", i, d.gathered.items[i].Token.Seq, want)
		}
	}
	for k, r := range runs[:2] {
		for i, e := range r.pending {
			if want := int64(maxSettle + 3*i + k); e.settlement.Token.Seq != want {
				t.Fatalf("run %d waits with %d at %d, want %d", k, e.settlement.Token.Seq, i, want)
			}
		}
		if len(r.pending) != extra/3 {
			t.Errorf("%d verdicts of run %d wait", len(r.pending), k)
		}
	}
	if rest := d.gathered.outs[:cap(d.gathered.outs)]; rest[extra/3].run != nil || rest[extra-1].run != nil {
		t.Error("what was taken is still referred to")
	}
}

package kafka

import (
	"slices"
	"testing"
)

// want compares offsets.
func want(t *testing.T, what string, got []int64, offsets ...int64) {
	t.Helper()
	if !slices.Equal(got, offsets) {
		t.Errorf("%s: %v, want %v", what, got, offsets)
	}
}

// TestNothingIsHandedOutOfWhatIsGivenUp: what was claimable when the partition was
// revoked would otherwise be carried out here and by its next owner.
func TestNothingIsHandedOutOfWhatIsGivenUp(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "b", "")...)
	first := r.claim(1)
	want(t, "before", offsets(first), 0)
	r.ownership.drain(a)
	want(t, "while it drains", offsets(r.claim(9)))
	select {
	case <-a.quiet:
		t.Error("it is quiet although a handler runs")
	default:
	}
	if !r.ack(first[0]) {
		t.Error("an ack while it drains does not count")
	}
	select {
	case <-a.quiet:
	default:
		t.Error("it is not quiet although nothing runs")
	}
	r.ownership.drop(a)
	want(t, "when it is gone", offsets(r.claim(9)))
	again := r.assign(1)
	r.take(again, records(1, "b", "")...)
	want(t, "when it is back", offsets(r.claim(9)), 1, 2)
}

// TestALateAckMovesNothing: the partition is somebody else's (Redpanda Connect
// #4477, and the late mark of franz-go).
func TestALateAckMovesNothing(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "b")...)
	late := r.claim(9)
	r.ownership.drop(a)
	again := r.assign(0)
	r.take(again, records(0, "a", "b")...)
	for _, g := range late {
		if r.ack(g) {
			t.Errorf("the late ack of %d counts", g.flight.rec.Offset)
		}
	}
	if a.gate.Base() != 0 || r.checkpoint(again).Base != 0 {
		t.Errorf("bases %d and %d, want 0", a.gate.Base(), again.gate.Base())
	}
}

// TestASecondAckIsStale, also when the offset's place is another's already.
func TestASecondAckIsStale(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "a")...)
	g := r.claim(1)[0]
	if !r.ack(g) || r.ack(g) {
		t.Error("the first ack counts, and no other")
	}
	if base := r.checkpoint(a).Base; base != 1 {
		t.Errorf("base %d, want 1", base)
	}
}

// TestAKeyWaitsForItsGhost: the handler of an earlier assignment still runs.
func TestAKeyWaitsForItsGhost(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "b")...)
	running := r.claim(1)
	r.ownership.drop(a)
	again := r.assign(0)
	r.take(again, records(0, "a", "b", "a")...)
	want(t, "beside the ghost", offsets(r.claim(9)), 1)
	r.ownership.drop(again) // and once more, with a leftover of b
	third := r.assign(0)
	r.take(third, records(0, "a", "b", "a")...)
	want(t, "beside two leftovers", offsets(r.claim(9)))
	if r.ack(running[0]) {
		t.Error("an ack of an earlier assignment counts")
	}
	want(t, "after the handler's return", offsets(r.claim(9)), 0)
	if n := len(r.engine.leftovers); n != 1 {
		t.Errorf("%d leftovers, want that of b", n)
	}
}

// TestCountersReturnToZero (Parallel Consumer #857, #547).
func TestCountersReturnToZero(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "b", "", "a", "c", "b")...)
	for range 6 {
		for _, g := range r.claim(2) {
			r.ack(g)
		}
	}
	if a.inHand != 0 || a.bytes != 0 || a.leased != 0 || a.dying != 0 || r.engine.bytes != 0 {
		t.Errorf("in hand %d, bytes %d and %d, leased %d, dying %d", a.inHand, a.bytes, r.engine.bytes,
			a.leased, a.dying)
	}
	r.take(a, records(6, "a", "b", "c")...)
	late := r.claim(2)
	r.ownership.drop(a)
	for _, g := range late {
		r.ack(g)
	}
	if r.engine.bytes != 0 || len(r.engine.byID) != 0 || len(r.engine.leftovers) != 0 || len(r.engine.timed.Lanes) != 0 {
		t.Errorf("after a drop: bytes %d, assignments %d, leftovers %d", r.engine.bytes, len(r.engine.byID),
			len(r.engine.leftovers))
	}
}

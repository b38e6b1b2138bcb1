package kafka

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// skip asks for a message to be stepped over.
func (r *rig) skip(offset int64) { r.engine.requestSkip(rigTopic, 0, offset, "skipped by the test") }

// writeDead writes the dead letters, and returns the offsets of their messages.
func (r *rig) writeDead() []int64 {
	all := []int64{}
	for _, d := range r.engine.takeDeaths() {
		r.engine.letterWritten(d)
		all = append(all, d.flight.rec.Offset)
	}
	return all
}

// TestASkipWaitsForTheHandlerOfItsKey: what is stepped over behind a message that is
// carried out dies when that one is settled. The lane stays the handler's until then.
func TestASkipWaitsForTheHandlerOfItsKey(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a")...)
	first := r.claim(9)
	r.take(a, records(1, "a", "a")...)
	r.skip(1)
	want(t, "dead while the handler runs", r.writeDead())
	want(t, "handed out while the handler runs", offsets(r.claim(9)))
	if !r.ack(first[0]) {
		t.Fatal("the ack of the handler does not count")
	}
	want(t, "dead after that", r.writeDead(), 1)
	want(t, "handed out after that", offsets(r.claim(9)), 2)
	if cp := r.checkpoint(a); cp.Base != 2 {
		t.Errorf("committed up to %d, want 2", cp.Base)
	}
}

// TestASkipWaitsForTheHandlerOfAnEarlierAssignment: the lane that waits for it is not
// opened by the dead letter.
func TestASkipWaitsForTheHandlerOfAnEarlierAssignment(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "a")...)
	old := r.claim(9)
	r.ownership.drop(a)
	again := r.assign(0)
	r.take(again, records(0, "a", "a")...)
	r.skip(0)
	want(t, "dead while the old handler runs", r.writeDead())
	want(t, "handed out while the old handler runs", offsets(r.claim(9)))
	r.ack(old[0])
	want(t, "dead after that", r.writeDead(), 0)
	want(t, "handed out after that", offsets(r.claim(9)), 1)
}

// TestASkipOfWhatIsReady: lanes that became claimable out of their order wait in a
// heap; one of which everything was stepped over must not stay there.
func TestASkipOfWhatIsReady(t *testing.T) {
	for skipped := range int64(5) {
		r := newRig(t, Consuming{})
		a := r.assign(0)
		r.take(a, records(0, "a", "b", "c", "d")...)
		for _, g := range r.claim(4) {
			r.take(a, record(4+g.flight.rec.Offset, "")) // what comes later is in the ring
			r.settle(g, store.Settlement{Verdict: store.Release})
		}
		var left []int64
		for at := range int64(8) {
			if at != skipped {
				left = append(left, at)
			}
		}
		r.skip(skipped)
		want(t, "dead", r.writeDead(), skipped)
		want(t, "handed out", offsets(r.claim(99)), left...)
	}
}

// TestASkipOfWhatWaitsForItsRetry: the lane goes on at once, and its next retry waits
// as long as it should, whatever else does.
func TestASkipOfWhatWaitsForItsRetry(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "b", "a")...)
	for _, g := range r.claim(9) {
		r.settle(g, store.Settlement{Verdict: store.Retry, After: 5 * time.Second})
	}
	r.skip(0)
	want(t, "dead", r.writeDead(), 0)
	second := r.claim(9) // for a minute
	want(t, "handed out", offsets(second), 2)
	r.pass(6 * time.Second)
	want(t, "handed out when the other retry is due", offsets(r.claim(9)), 1)
	r.settle(second[0], store.Settlement{Verdict: store.Retry, After: 5 * time.Second})
	want(t, "handed out before the retry is due", offsets(r.claim(9)))
	r.pass(6 * time.Second)
	want(t, "handed out when the retry is due", offsets(r.claim(9)), 2)
}

// TestASkipOfWhatIsSetAside: a lane that a partition with few lanes at work has set aside is set
// aside once, however often it comes to that.
func TestASkipOfWhatIsSetAside(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	a.danger, a.crashes = 100, 3
	var keys []string
	for i := range namedLanes + 1 {
		keys = append(keys, string(rune('a'+i)))
	}
	r.take(a, records(0, keys...)...)
	r.take(a, record(int64(len(keys)), keys[namedLanes]))
	running := r.claim(99)
	if len(running) != namedLanes {
		t.Fatalf("%d lanes are leased, want %d", len(running), namedLanes)
	}
	r.claim(99)
	r.skip(namedLanes)
	want(t, "dead", r.writeDead(), namedLanes)
	want(t, "handed out while there is no room", offsets(r.claim(99)))
	if len(a.setAside) != 1 {
		t.Errorf("%d lanes are set aside, want 1", len(a.setAside))
	}
	r.ack(running[0])
	want(t, "handed out", offsets(r.claim(99)), namedLanes+1)
	r.ack(running[1])
	want(t, "handed out when there is more room", offsets(r.claim(99)))
}

// TestADeathIsNotQuiet: the last commit of a partition that is given up waits for the
// dead letter of what failed meanwhile, and has its message as finished.
func TestADeathIsNotQuiet(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a")...)
	g := r.claim(9)[0]
	r.ownership.drain(a)
	r.settle(g, store.Settlement{Verdict: store.Dead})
	select {
	case <-a.quiet:
		t.Error("it is quiet although a dead letter is to be written")
	default:
	}
	want(t, "dead", r.writeDead(), 0)
	select {
	case <-a.quiet:
	default:
		t.Error("it is not quiet although the dead letter is written")
	}
	if cp := r.ownership.conclude(a); cp.Base != 1 {
		t.Errorf("committed up to %d, want 1", cp.Base)
	}
}

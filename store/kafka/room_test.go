package kafka

import "testing"

// TestAFullPartitionWaitsForOthers: what has no room because of the bytes of all
// partitions goes on when another one has made room.
func TestAFullPartitionWaitsForOthers(t *testing.T) {
	r := newRig(t, Consuming{Bytes: 40})
	a := r.assign(0)
	b := r.ownership.assign(rigTopic, 1, 1, 0, r.checkpoint(a))
	r.take(a, record(0, "stuck"))
	other := records(0, "b0", "b1", "b2", "b3", "b4")
	for _, o := range other {
		o.Partition = 1
	}
	r.take(b, other...)
	if n := r.engine.take(a, records(1, "waits", "waits", "waits")); n == 3 {
		t.Fatal("there is room: the test is of no use")
	}
	var stuck given
	for _, g := range r.claim(9) {
		if g.flight.lane.of == a {
			stuck = g
			continue
		}
		r.ack(g)
	}
	select {
	case <-r.engine.room:
	default:
		t.Error("nobody was told that there is room")
	}
	r.ack(stuck)
}

package kafka

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// What a process has had in hand for more than half of its deadline is stuck.
func TestStuckInHand(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	r.take(a, records(0, "a", "b")...)
	terms := store.Lease{For: time.Hour}
	if n := len(r.claimWith(1, terms)); n != 1 {
		t.Fatalf("%d claimed", n)
	}
	r.pass(store.DefaultDeadline/2 + time.Second)
	if n := len(r.claimWith(1, terms)); n != 1 {
		t.Fatalf("%d claimed", n)
	}
	if f := r.engine.figures(rigTopic); f.leased != 2 || f.stuck != 1 {
		t.Errorf("%d leased, %d of them stuck; want 2 and 1", f.leased, f.stuck)
	}
}

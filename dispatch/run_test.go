package dispatch

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
)

// Whatever the lease and the deadline: a handler is told before it is given up,
// it is given up while there is a lease to settle that with, and the lease is
// never trusted for as long as the store does.
func TestMomentsOfADelivery(t *testing.T) {
	d := assemble(&engine{byName: map[string]*topic{"a": {}}})
	rapid.Check(t, func(t *rapid.T) {
		duration := func(name string) time.Duration {
			return time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(24*time.Hour)).Draw(t, name))
		}
		sent, asked, deadline := duration("sent"), duration("lease"), duration("deadline")
		lease := min(asked, deadline)
		r := d.makeRun([]pawl.Delivery{{Message: pawl.Message{Topic: "a"}, LeaseFor: lease, Deadline: deadline}}, sent)
		extended := r.leased(sent+lease/3, asked)
		longest := r.leased(sent+deadline-1, asked)
		switch {
		case !(sent < r.hard && r.hard < r.force() && r.force() < r.last):
			t.Fatalf("told at %v, given up at %v, deadline %v", r.hard-sent, r.force()-sent, r.last-sent)
		case r.until <= sent || r.until >= sent+lease:
			t.Fatalf("trusted until %v, leased for %v", r.until-sent, lease)
		case extended < r.until || extended >= min(sent+lease/3+asked, r.last):
			t.Fatalf("extended to %v from %v, leased until %v", extended-sent, r.until-sent,
				min(lease/3+asked, deadline))
		case longest <= r.force() || longest >= r.last:
			t.Fatalf("trusted until %v at most, given up at %v, deadline %v", longest-sent, r.force()-sent, r.last-sent)
		case lease == deadline && r.until <= r.force():
			t.Fatalf("trusted until %v, given up at %v", r.until-sent, r.force()-sent)
		}
	})
}

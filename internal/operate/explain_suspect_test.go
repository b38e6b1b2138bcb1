package operate

import (
	"strconv"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/store"
)

// TestExplainSaysThatDeathsPutRunningAloneOff: where workers die again and again, a message
// that is to be carried out alone waits, and explain says until when.
func TestExplainSaysThatDeathsPutRunningAloneOff(t *testing.T) {
	e := newExplained(t)
	e.append(pawl.Message{ID: "x"})
	e.rescued(4)
	e.append(pawl.Message{ID: "y"})
	for i := range 3 {
		lease := store.Lease{For: 10 * time.Second, Owner: strconv.Itoa(i)}
		_, err := e.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 1}}, lease)
		e.check(err)
		e.now = e.now.Add(11 * time.Second)
		lease.Owner = "heir"
		ds, err := e.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 1}}, lease)
		e.check(err)
		_, err = e.Settle(t.Context(), store.NewBatch(store.Settlement{Token: ds[0].Token, Verdict: store.Ack}))
		e.check(err)
		e.append(pawl.Message{ID: "z" + strconv.Itoa(i)})
	}
	e.announce(roster.Topic{Topic: "t"})
	x := e.explain()
	e.says(x.Why, "4 workers died", "the last 3 workers died while holding other messages of the topic")
	e.says(x.Next.Action, "if no more workers die until then")
	if x.Next.At == nil || x.Next.At.Sub(e.now) < 4*time.Minute {
		t.Errorf("it says when: %v", x.Next.At)
	}
}

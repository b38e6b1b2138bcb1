package postgres

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// A claimer that dies after it took the ticket of a message in the middle of a
// lane, before it has read the lane, leaves the order as it is.
func TestClaimerDiesBeforeReading(t *testing.T) {
	in := harness().Open(t)
	s, ctx := in.Store.(*Store), t.Context()
	for _, m := range []pawl.Message{{ID: "first"}, {ID: "second", Priority: pawl.MaxPriority}} {
		m.Topic, m.Key = "t", []byte("k")
		if _, err := s.Append(ctx, store.NewBatch(m)); err != nil {
			t.Fatal(err)
		}
	}
	wants, terms := []store.Want{{Topic: "t", Limit: 1}}, store.Lease{For: 10 * time.Second}
	cs, err := s.claimings(ctx, wants, terms)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.call(ctx, s.back, cs[0].take(s)); err != nil || len(cs[0].lanes) != 1 {
		t.Fatalf("took %v: %v", cs[0].lanes, err)
	}
	in.Advance(time.Minute)
	wants[0].Limit = 10
	for _, want := range []string{"first", "second"} {
		ds, err := s.Claim(ctx, wants, terms)
		if err != nil || len(ds) == 0 || ds[0].ID != want {
			t.Fatalf("claimed %v: %v; want %s", ds, err, want)
		}
		if _, err := s.Settle(ctx, store.NewBatch(store.Settlement{Token: ds[0].Token, ID: want, Verdict: store.Ack})); err != nil {
			t.Fatal(err)
		}
	}
}

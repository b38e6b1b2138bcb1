package postgres

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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

// A message that has its number already, but commits when what is behind it was
// given out, is no part of that run.
func TestLateCommitIsNotOfTheRun(t *testing.T) {
	in := harness().Open(t)
	s, ctx := in.Store.(*Store), t.Context()
	batch := func(id string) store.Batch[pawl.Message] {
		return store.NewBatch(pawl.Message{ID: id, Topic: "t", Key: []byte("k")})
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Append(ctx, batch("first"))
	check(err)
	conn, err := pgx.Connect(ctx, s.cfg.URL)
	check(err)
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	check(err)
	_, err = s.AppendTx(ctx, tx, batch("late"))
	check(err)
	_, err = s.Append(ctx, batch("third"))
	check(err)
	wants, terms := []store.Want{{Topic: "t", Limit: 10}}, store.Lease{For: 10 * time.Second}
	ds, err := s.Claim(ctx, wants, terms)
	if check(err); len(ds) != 2 || ds[1].ID != "third" {
		t.Fatalf("claimed %v", ds)
	}
	check(tx.Commit(ctx))
	if r, err := s.Get(ctx, "late"); err != nil || r.State != store.Waiting {
		t.Errorf("late is %s: %v", r.State, err)
	}
	_, err = s.Settle(ctx, store.NewBatch(store.Settlement{Token: ds[0].Token, ID: "first", Verdict: store.Ack}))
	check(err)
	in.Advance(time.Minute)
	ds, err = s.Claim(ctx, wants, terms)
	if check(err); len(ds) != 1 || ds[0].ID != "third" || ds[0].Rescues != 1 {
		t.Errorf("after the rescue: %v", ds)
	}
}

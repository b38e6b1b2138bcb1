package postgres

import (
	"context"
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
	if err := s.call(ctx, s.back, cs[0].take(s.claimer)); err != nil || len(cs[0].lanes) != 1 {
		t.Fatalf("took %v: %v", cs[0].lanes, err)
	}
	in.Advance(time.Minute)
	wants[0].Limit, wants[0].Run = 10, 1
	for _, want := range []string{"first", "second"} {
		ds, err := s.Claim(ctx, wants, terms)
		if err != nil || len(ds) == 0 || ds[0].ID != want {
			t.Fatalf("claimed %v: %v; want %s", ds, err, want)
		}
		if _, err := s.Settle(ctx, store.NewBatch(store.Settlement{Token: ds[0].Token, ID: want,
			Verdict: store.Ack})); err != nil {
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

// The first message of a lane is the one that was given out, also where one with a lower number has committed since. If
// it is a suspect, the lane is claimed as one: with the ticket of an ordinary message nobody could ever have it.
func TestSuspectBehindALateCommitIsClaimed(t *testing.T) {
	in := harness().Open(t)
	s, ctx := in.Store.(*Store), t.Context()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	message := func(id string) store.Batch[pawl.Message] {
		return store.NewBatch(pawl.Message{ID: id, Topic: "t", Key: []byte("k")})
	}
	conn, err := pgx.Connect(ctx, s.cfg.URL)
	check(err)
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	check(err)
	_, err = s.AppendTx(ctx, tx, message("late"))
	check(err)
	_, err = s.Append(ctx, message("suspect"))
	check(err)
	claim := func() (ids []string) {
		t.Helper()
		ds, err := s.Claim(ctx, []store.Want{{Topic: "t", Limit: 10}},
			store.Lease{For: 10 * time.Second, Suspects: store.MaxSuspects, Alone: true})
		check(err)
		for _, d := range ds {
			ids = append(ids, d.ID)
		}
		return ids
	}
	for rescues := range 5 {
		if got := claim(); len(got) == 0 || got[0] != "suspect" {
			t.Fatalf("after %d rescues: claimed %q", rescues, got)
		}
		if rescues == 1 {
			check(tx.Commit(ctx))
		}
		in.Advance(time.Hour)
	}
}

// A ticket that is dropped because its lane is busy is made up for when the lane
// opens, also where somebody wrote to the lease while the ticket was looked at.
func TestDroppedTicketIsMadeUpFor(t *testing.T) {
	z := newRig(t)
	s, ctx := z.s, z.ctx
	check, add := z.check, z.add
	wants, terms := []store.Want{{Topic: "t", Limit: 3}}, store.Lease{For: time.Minute}
	add("a1", "a")
	add("b1", "b")
	add("c1", "c")
	busy, err := s.Claim(ctx, wants, terms)
	if check(err); len(busy) != 3 {
		t.Fatalf("claimed %v", busy)
	}
	add("a2", "a")
	add("b2", "b")
	add("c2", "c")
	conn, err := pgx.Connect(ctx, s.cfg.URL)
	check(err)
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	check(err)
	_, err = tx.Exec(ctx, "UPDATE "+s.cfg.Schema+".lease SET last = last WHERE lane = $1", busy[2].Token.Lane)
	check(err)
	ended := make(chan error, 1)
	go func() { // it takes two tickets, of a and b; then it looks for more that are to be dropped
		ds, err := s.Claim(ctx, []store.Want{{Topic: "t", Limit: 1}}, terms)
		if err == nil && len(ds) > 0 {
			t.Errorf("claimed %v of lanes that are busy", ds)
		}
		ended <- err
	}()
	waitsForLock(t, s.cfg.URL, s.cfg.Schema)
	check(tx.Commit(ctx))
	check(<-ended)
	for _, d := range busy {
		_, err := s.Settle(ctx, store.NewBatch(store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack}))
		check(err)
	}
	ds, err := s.Claim(ctx, wants, terms)
	if check(err); len(ds) != 3 {
		t.Errorf("claimed %v, want a2, b2 and c2", ds)
	}
}

// Who claims does not wait until somebody else is done with a lane; the ticket
// that it leaves there is found again, however far claims have come meanwhile.
func TestClaimDoesNotWaitForALane(t *testing.T) {
	z := newRig(t)
	s, ctx := z.s, z.ctx
	check, add := z.check, z.add
	claim := func(want string) pawl.Delivery {
		t.Helper()
		soon, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		ds, err := s.Claim(soon, []store.Want{{Topic: "t", Limit: 1}}, store.Lease{For: time.Minute})
		if check(err); len(ds) != 1 || ds[0].ID != want {
			t.Fatalf("claimed %v, want %s", ds, want)
		}
		return ds[0]
	}
	add("a1", "a")
	a1 := claim("a1")
	add("a2", "a")
	time.Sleep(2 * slackShort * time.Microsecond / 3)
	conn, err := pgx.Connect(ctx, s.cfg.URL)
	check(err)
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	check(err)
	_, err = tx.Exec(ctx, "SELECT FROM "+s.cfg.Schema+".lease WHERE lane = $1 FOR UPDATE", a1.Token.Lane)
	check(err)
	time.Sleep(slackShort * time.Microsecond / 2)
	add("b1", "b")
	claim("b1")
	check(tx.Rollback(ctx))
	_, err = s.Settle(ctx, store.NewBatch(store.Settlement{Token: a1.Token, ID: "a1", Verdict: store.Ack}))
	check(err)
	claim("a2")
}

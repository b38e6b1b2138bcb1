package kafka

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// What is fetched is taken in until there is no room, across the pieces in which
// that happens, and goes on where it stopped.
func TestTakeStopsWhereThereIsNoRoom(t *testing.T) {
	const room, fetched = 700, 3*pieceOfTake - 100
	c, err := Config{Brokers: []string{"127.0.0.1:1"}, Consume: Consuming{Count: room}}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(time.Now, c.Consume)
	a := e.assign("mail", 0, 1, -1, gate.Checkpoint{})
	records := newSource(1, fetched, 50).fetch(0)
	next := int64(0) // offset, by which nothing may be left out or come twice
	seen := map[int64]bool{}
	for taken := 0; taken < fetched; {
		n := e.take(a, records[taken:])
		if want := min(room, fetched-taken); n != want {
			t.Fatalf("%d of %d taken in, want %d", n, fetched-taken, want)
		}
		taken += n
		if n := e.take(a, records[taken:]); n != 0 {
			t.Fatalf("%d taken in without room", n)
		}
		ack(t, e, seen)
		if next += int64(n); a.gate.Advance() != next {
			t.Fatalf("finished up to %d, want %d", a.gate.Advance(), next)
		}
	}
	if len(seen) != fetched {
		t.Errorf("%d of %d were handed out", len(seen), fetched)
	}
}

// A list of a claim that is used again brings nothing back.
func TestClaimsDoNotShareWhatTheyHandOut(t *testing.T) {
	c, err := Config{Brokers: []string{"127.0.0.1:1"}}.Complete()
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(time.Now, c.Consume)
	a := e.assign("mail", 0, 1, -1, gate.Checkpoint{})
	source := newSource(1, 100, 0)
	for range 5 {
		e.take(a, source.fetch(0))
		if seen := ack(t, e, map[int64]bool{}); len(seen) != 100 {
			t.Fatalf("%d messages instead of 100", len(seen))
		}
	}
}

// ack claims and acks all there is.
func ack(t *testing.T, e *engine, seen map[int64]bool) map[int64]bool {
	t.Helper()
	name := "mail"
	for {
		c, err := e.claim([]store.Want{{Topic: name, Limit: 64}}, &store.Lease{For: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ds := c.deliveries()
		c.free()
		if len(ds) == 0 {
			return seen
		}
		acks := make([]store.Settlement, len(ds))
		for i := range ds {
			if seen[ds[i].Token.Seq] {
				t.Fatalf("offset %d came twice", ds[i].Token.Seq)
			}
			seen[ds[i].Token.Seq] = true
			acks[i] = store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack}
		}
		if lost, _, err := e.settle(acks, nil); err != nil || len(lost) > 0 {
			t.Fatalf("settle: %d lost, %v", len(lost), err)
		}
	}
}

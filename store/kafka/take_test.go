package kafka

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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
	a := (&ownership{e}).assign("mail", 0, 1, -1, gate.Checkpoint{})
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
	a := (&ownership{e}).assign("mail", 0, 1, -1, gate.Checkpoint{})
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

// What a handler does to its delivery is nothing to the next one, nor to its neighbours.
func TestDeliveriesAreCopies(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	long := strings.Repeat("x", 1<<10)
	r.take(a, &kgo.Record{Topic: rigTopic, Key: []byte("a"), Value: []byte("one")},
		&kgo.Record{Topic: rigTopic, Offset: 1, Key: []byte{}, Value: []byte("two")},
		&kgo.Record{Topic: rigTopic, Offset: 2, Value: []byte("three"),
			Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("v")}, {Key: headerID, Value: []byte("id")}}},
		&kgo.Record{Topic: rigTopic, Offset: 3, Key: []byte("d"), Value: []byte(long)},
		&kgo.Record{Topic: rigTopic, Offset: 4, Key: []byte("e")})
	for attempt := 1; attempt <= 3; attempt++ {
		c, err := r.engine.claim([]store.Want{{Topic: rigTopic, Limit: 10}}, &store.Lease{For: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		ds := c.deliveries()
		if len(ds) != 5 {
			t.Fatalf("%d deliveries", len(ds))
		}
		var acks []store.Settlement
		for i, want := range []struct{ id, key, body string }{{rigTopic + "/0/0", "a", "one"},
			{rigTopic + "/0/1", "", "two"}, {"id", "", "three"}, {rigTopic + "/0/3", "d", long},
			{rigTopic + "/0/4", "e", ""}} {
			d := &ds[i]
			if d.ID != want.id || string(d.Key) != want.key || string(d.Body) != want.body ||
				(d.Key == nil) != (i == 2) || (d.Body == nil) != (i == 4) || d.Attempt != attempt {
				t.Errorf("attempt %d: %q has %q, %.10q", attempt, d.ID, d.Key, d.Body)
			}
			for _, b := range [][]byte{d.Key, d.Body} {
				for i := range b {
					b[i] = '!'
				}
				_ = append(b, "into the next one"...)
			}
			acks = append(acks, store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Retry,
				Failure: store.Failure{Error: "once more"}})
		}
		if ds[2].Headers["h"] != "v" {
			t.Errorf("headers %v", ds[2].Headers)
		}
		if lost, _, err := r.engine.settle(acks, nil); err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
	}
}

// Lanes of keys that do not come again are let go of.
func TestEmptyLanesAreForgotten(t *testing.T) {
	r := newRig(t, Consuming{})
	a := r.assign(0)
	for n := range int64(3 * maxCount) {
		r.take(a, record(n, fmt.Sprint("key ", n)))
		if !r.ack(r.claim(1)[0]) {
			t.Fatal("a stale token")
		}
	}
	if n := len(a.lanes); n > 2*maxCount+1 {
		t.Errorf("%d lanes are kept", n)
	}
}

// What is finished already needs no room: what is behind it is taken in, too.
func TestTakeGoesOnBehindWhatIsFinished(t *testing.T) {
	r := newRig(t, Consuming{Count: 10})
	a := r.assign(0)
	r.take(a, records(0, "a", "b", "c", "d", "e", "f", "g", "h")...)
	for _, g := range r.claim(10)[1:] {
		r.ack(g)
	}
	cp := r.checkpoint(a)
	r = newRig(t, Consuming{Count: 4})
	a = r.resume(cp)
	all := records(0, "a", "b", "c", "d", "e", "f", "g", "h", "i", "j")
	n := r.engine.take(a, all)
	r.ack(r.claim(1)[0])
	if n += r.engine.take(a, all[n:]); n != len(all) {
		t.Errorf("%d of %d were taken in with %d in hand", n, len(all), a.inHand)
	}
}

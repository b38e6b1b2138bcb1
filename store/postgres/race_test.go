package postgres

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// rig is a store with its floors on, and a connection beside it: what the harness
// of the contract, which moves the clock, does not see.
type rig struct {
	*testing.T
	at  string
	cfg Config
	s   *Store
	ctx context.Context
}

func newRig(t *testing.T) *rig {
	at := server(t)
	cfg := Config{URL: at, Schema: freshSchema(t, at), AutoMigrate: true, MaxConns: 6, NoChores: true}
	return &rig{t, at, cfg, open(t, cfg), t.Context()}
}

func (z *rig) check(err error) {
	z.Helper()
	if err != nil {
		z.Fatal(err)
	}
}

func (z *rig) add(id, key string) {
	z.Helper()
	_, err := z.s.Append(z.ctx, store.NewBatch(pawl.Message{ID: id, Topic: "t", Key: []byte(key)}))
	z.check(err)
}

func (z *rig) claim(n, run int) []pawl.Delivery {
	z.Helper()
	ds, err := z.s.Claim(z.ctx, []store.Want{{Topic: "t", Limit: n, Run: run}}, store.Lease{For: time.Minute})
	z.check(err)
	return ds
}

func (z *rig) ack(ds ...pawl.Delivery) []store.Refusal {
	z.Helper()
	var b []store.Settlement
	for _, d := range ds {
		b = append(b, store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack})
	}
	r, err := z.s.Settle(z.ctx, store.NewBatch(b...))
	z.check(err)
	return r
}

// tx begins a transaction of somebody else.
func (z *rig) tx() (*pgx.Conn, pgx.Tx) {
	z.Helper()
	c, err := pgx.Connect(z.ctx, z.at)
	z.check(err)
	z.Cleanup(func() { _ = c.Close(context.Background()) })
	tx, err := c.Begin(z.ctx)
	z.check(err)
	return c, tx
}

func idsOf(ds []pawl.Delivery) (ids []string) {
	for _, d := range ds {
		ids = append(ids, d.ID)
	}
	return ids
}

// A claim whose second round fails gives out what the first one got; nobody else
// gets it, too.
func TestWhatIsGivenOutStaysGivenOut(t *testing.T) {
	z := newRig(t)
	z.add("b0", "b") // learn the lane of b
	b0 := z.claim(1, 1)
	z.ack(b0...)
	z.add("a1", "a")
	z.add("a2", "a")
	z.add("a3", "a")
	z.add("a4", "a")
	z.add("b1", "b")
	_, tx := z.tx()
	_, err := tx.Exec(z.ctx,
		"INSERT INTO "+z.cfg.Schema+".lease (lane, token, reach, first, last) VALUES ($1, 1, 0, 0, -1)",
		b0[0].Token.Lane)
	z.check(err)
	soon, cancel := context.WithCancel(z.ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer cancel()
		waitsForLock(t, z.at, z.cfg.Schema)
	}()
	first, _ := z.s.Claim(soon, []store.Want{{Topic: "t", Limit: 2, Run: 1}}, store.Lease{For: time.Minute})
	<-watched
	z.check(tx.Rollback(z.ctx))
	time.Sleep(100 * time.Millisecond)
	second := z.claim(5, 1)
	for _, d := range second {
		for _, f := range first {
			if d.ID == f.ID {
				t.Errorf("%s is with two workers at once", d.ID)
			}
		}
	}
	if r := z.ack(first...); len(r) > 0 {
		t.Errorf("ack of the first: %v", r)
	}
}

// Ranks that are lower since a topic ages more quickly are looked for at once.
func TestAlteredAgeingHidesNothing(t *testing.T) {
	z := newRig(t)
	z.add("m0", "k0")
	z.ack(z.claim(1, 1)...)
	top, err := z.s.Topic(z.ctx, "t")
	z.check(err)
	top.Ageing = time.Minute
	_, err = z.s.Alter(z.ctx, top)
	z.check(err)
	for i := range 100 {
		z.add(fmt.Sprint("m", i+1), fmt.Sprint("k", i+1))
	}
	got := 0
	start := time.Now()
	for got < 100 && time.Since(start) < 5*time.Second {
		got += len(z.claim(10, 1))
		time.Sleep(20 * time.Millisecond)
	}
	if got < 100 {
		t.Errorf("after 5 s of claims: %d of 100", got)
	}
}

// A ticket that was left because its lane was being settled is announced shortly
// after.
func TestTicketThatStayedWakes(t *testing.T) {
	z := newRig(t)
	z.add("a1", "a")
	a1 := z.claim(1, 1)
	z.add("a2", "a")
	z.add("b1", "b")
	woken, err := z.s.Listen(z.ctx, "t")
	z.check(err)
	_, tx := z.tx()
	_, err = tx.Exec(z.ctx, "SELECT FROM "+z.cfg.Schema+".lease WHERE lane = $1 FOR UPDATE", a1[0].Token.Lane)
	z.check(err)
	for quiet := false; !quiet; {
		select {
		case <-woken:
		case <-time.After(100 * time.Millisecond):
			quiet = true
		}
	}
	if ds := z.claim(10, 1); len(ds) != 1 || ds[0].ID != "b1" {
		t.Fatalf("claimed %v", idsOf(ds))
	}
	select {
	case <-woken:
	case <-time.After(200 * time.Millisecond):
		t.Error("nobody was woken")
	}
	z.check(tx.Rollback(z.ctx))
}

// A replay is behind a delayed message that was due before.
func TestReplayIsBehindTheDue(t *testing.T) {
	z := newRig(t)
	z.add("m", "k")
	ds := z.claim(1, 1)
	_, err := z.s.Settle(z.ctx, store.NewBatch(store.Settlement{Token: ds[0].Token, ID: "m", Verdict: store.Dead,
		Failure: store.Failure{Kind: "K", Error: "e"}}))
	z.check(err)
	_, err = z.s.Append(z.ctx, store.NewBatch(pawl.Message{ID: "d", Topic: "t", Key: []byte("k"),
		Delay: 50 * time.Millisecond}))
	z.check(err)
	time.Sleep(150 * time.Millisecond)
	_, err = z.s.Replay(z.ctx, "", "m")
	z.check(err)
	time.Sleep(300 * time.Millisecond)
	if ds := z.claim(10, 10); len(ds) != 2 || ds[0].ID != "d" {
		t.Errorf("claimed %v", idsOf(ds))
	}
}

// deadlocks is how often something must have taken as long as the server takes to
// find a deadlock, a second, until it counts: machines are slow at times, too.
const deadlocks = 3

// Cancel and claim do not wait for each other.
func TestCancelAndClaim(t *testing.T) {
	z := newRig(t)
	peer := open(t, z.cfg)
	slow := 0
	for i := range 60 {
		var names []string
		for j := range 20 {
			names = append(names, fmt.Sprint("m", i, "-", j))
			z.add(names[j], names[j])
		}
		end := make(chan bool)
		go func() {
			_, _ = peer.Cancel(z.ctx, names...)
			close(end)
		}()
		time.Sleep(time.Duration(i%12) * 250 * time.Microsecond)
		at := time.Now()
		ds := z.claim(50, 1)
		if d := time.Since(at); d > 800*time.Millisecond {
			slow++
		}
		<-end
		z.ack(ds...)
		if slow == deadlocks {
			t.Fatalf("%d claims of %d took more than 800 ms", slow, i+1)
		}
	}
}

// Two appends that take over the same unique keys do not wait for each other.
func TestUniqueKeysAreLockedInOrder(t *testing.T) {
	for range deadlocks {
		if appendsTake(t) < 900*time.Millisecond {
			return
		}
	}
	t.Error("deadlocks")
}

func appendsTake(t *testing.T) time.Duration {
	z := newRig(t)
	peer := open(t, z.cfg)
	uniq := func(id, key string) pawl.Message {
		return pawl.Message{ID: id, Topic: "t", Unique: pawl.Unique{Key: key, For: time.Millisecond}}
	}
	z.appendAll(uniq("1", "1"), uniq("2", "2"))
	time.Sleep(2 * time.Millisecond) // the keys are free
	// Somebody holds the first one for a moment. Who asks for it waits with nothing in
	// his hands; who begins with the other one has that.
	_, tx := z.tx()
	var id []byte
	z.check(tx.QueryRow(z.ctx, "SELECT id FROM "+z.cfg.Schema+".uniq ORDER BY k LIMIT 1 FOR UPDATE").Scan(&id))
	lo := sqlstore.DecodeID(id)
	hi := map[string]string{"1": "2", "2": "1"}[lo]
	took := make(chan time.Duration, 2)
	take := func(s *Store, ms ...pawl.Message) {
		at := time.Now()
		_, err := s.Append(z.ctx, store.NewBatch(ms...))
		took <- time.Since(at)
		if err != nil {
			t.Errorf("append: %v", err)
		}
	}
	go take(peer, uniq("a", lo), uniq("b", hi))
	waitsForLock(t, z.at, z.cfg.Schema)
	go take(z.s, uniq("c", hi), uniq("d", lo))
	time.Sleep(200 * time.Millisecond)
	z.check(tx.Rollback(z.ctx))
	return max(<-took, <-took)
}

// Who acks and drops claims that are over does not wait for the sweep, which may
// wait for its lanes.
func TestAckAndSweep(t *testing.T) {
	for range deadlocks {
		if took, tries := ackTakes(t); took < 700*time.Millisecond && tries == 1 {
			return
		}
	}
	t.Error("deadlocks")
}

func ackTakes(t *testing.T) (took time.Duration, tries int) {
	z := newRig(t)
	peer := open(t, z.cfg)
	short := store.Lease{For: 300 * time.Millisecond}
	z.add("f", "f")
	f, err := z.s.Claim(z.ctx, []store.Want{{Topic: "t", Limit: 1}}, short)
	z.check(err)
	z.ack(f...) // its claim is done, its row is dropped by the next settle
	z.add("g", "g")
	g, err := z.s.Claim(z.ctx, []store.Want{{Topic: "t", Limit: 1}}, short)
	z.check(err)
	time.Sleep(350 * time.Millisecond)
	acked := make(chan time.Duration, 1)
	z.check(peer.within(z.ctx, peer.back, nil, func(x *tx) error {
		tries++
		claims, err := query(z.ctx, x, readOverdue, dueClaims, peer.skewValue(), timeValue(math.MinInt64),
			int8Array(nil), int8Value(sweptAtOnce))
		if err != nil || len(claims) == 0 {
			return err
		}
		if tries == 1 {
			go func() { at := time.Now(); r := z.ack(g...); t.Logf("ack: %v", r); acked <- time.Since(at) }()
			time.Sleep(100 * time.Millisecond) // it is through, or it waits
		}
		var woken []int32
		return peer.rescue(z.ctx, x, claims, &woken)
	}))
	return <-acked, tries
}

// What a claim locks in one band, and does not take because another band has
// better, is not hidden from the process by a claim that came further meanwhile.
func TestLockedBeyondWhatIsWantedIsSeenAgain(t *testing.T) {
	z := newRig(t)
	var ms []pawl.Message
	for i := range 30 {
		ms = append(ms, pawl.Message{ID: fmt.Sprintf("m%02d", i), Topic: "t"})
	}
	_, err := z.s.Append(z.ctx, store.NewBatch(ms...))
	z.check(err)
	var rel []store.Settlement
	for _, d := range z.claim(10, 1) {
		rel = append(rel, store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Release})
	}
	_, err = z.s.Settle(z.ctx, store.NewBatch(rel...))
	z.check(err)
	c, mine := z.tx() // a backlog: a message every ten seconds
	z.check(mine.Rollback(z.ctx))
	for _, table := range []string{"msg", "slot"} {
		_, err = c.Exec(z.ctx, "UPDATE "+z.cfg.Schema+"."+table+" SET rank = rank - (30 - seq) * 10000000")
		z.check(err)
	}
	s := open(t, z.cfg)
	z.s = s
	s.floors.priorities[1] = 1
	cs, err := s.claimings(z.ctx, []store.Want{{Topic: "t", Limit: 10}}, store.Lease{For: time.Minute})
	z.check(err)
	s.floors.priorities[cs[0].topic.id] = 1
	z.check(s.within(z.ctx, s.back, nil, func(x *tx) error {
		if err := x.run(z.ctx, cs[0].take(s.claimer)); err != nil {
			return err
		}
		z.claim(10, 1) // of the same process, at the same time
		return nil
	}))
	z.check(s.call(z.ctx, s.back, cs[0].readLanes(s.claimer)))
	_, err = s.finish(z.ctx, cs[0])
	z.check(err)
	start := time.Now()
	var got []string
	for time.Since(start) < 33*time.Second && len(got) < 10 {
		if ds := z.claim(10, 1); len(ds) > 0 {
			got = append(got, idsOf(ds)...)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("it took %v until what was best was found", d)
	}
}

// What stayed where no floor was yet is below the floor that a claim sent at the
// same time makes.
func TestStayedWithoutAFloor(t *testing.T) {
	f, of := newFloors(), &topic{id: 1, Topic: store.Topic{Name: "t", Order: store.OrderKey}}
	stays := &claiming{topic: of, ask: 1, stayed: 1, left: []top{{band: 512, rank: 100_000_000}}}
	other := &claiming{topic: of, ask: 1, taken: 1, tops: []top{{band: 512, rank: 1_000_000_000}}}
	_, _, stays.known = f.of(of)
	_, _, other.known = f.of(of)
	f.note(stays)
	f.note(other)
	if _, ranks, _ := f.of(of); ranks[0] > 100_000_000 {
		t.Errorf("the next claim looks from %d on; a ticket stayed at 100000000", ranks[0])
	}
}

// A claim that fails when it has its tickets is given up, and nobody counts as dead.
func TestFailedClaimIsGivenUpAtOnce(t *testing.T) {
	z := newRig(t)
	z.add("m1", "k")
	top, err := z.s.Topic(z.ctx, "t")
	z.check(err)
	top.Park = true
	_, err = z.s.Alter(z.ctx, top)
	z.check(err)
	_, tx := z.tx()
	_, err = tx.Exec(z.ctx, "LOCK TABLE "+z.cfg.Schema+".dead")
	z.check(err)
	terms := store.Lease{For: 4 * time.Second}
	if _, err = z.s.Claim(z.ctx, []store.Want{{Topic: "t", Limit: 1}}, terms); err == nil {
		t.Fatal("it did not fail")
	}
	z.check(tx.Rollback(z.ctx))
	start := time.Now()
	for time.Since(start) < 6*time.Second {
		ds, err := z.s.Claim(z.ctx, []store.Want{{Topic: "t", Limit: 1}}, terms)
		z.check(err)
		if len(ds) > 0 {
			if ds[0].Rescues > 0 {
				t.Errorf("claimed after %v, with %d rescues", time.Since(start), ds[0].Rescues)
			}
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("never")
}

// What was got of one topic does not wait for a lane of another that is being
// settled.
func TestOneTopicDoesNotWaitForAnother(t *testing.T) {
	z := newRig(t)
	z.add("a1", "a")
	a1 := z.claim(1, 1)
	z.add("a2", "a")
	_, err := z.s.Append(z.ctx, store.NewBatch(pawl.Message{ID: "u1", Topic: "u"}))
	z.check(err)
	_, tx := z.tx()
	_, err = tx.Exec(z.ctx, "SELECT FROM "+z.cfg.Schema+".lease WHERE lane = $1 FOR UPDATE", a1[0].Token.Lane)
	z.check(err)
	at := time.Now()
	_, err = z.s.Claim(z.ctx, []store.Want{{Topic: "t", Limit: 5}, {Topic: "u", Limit: 5}},
		store.Lease{For: 2 * time.Second})
	z.check(err)
	if d := time.Since(at); d > time.Second {
		t.Errorf("it took %v; the lease was for 2 s", d)
	}
}

// Of two processes that move delayed messages to their lane, none passes over what
// the other one has in hand: what is due first joins first.
func TestDelayedJoinInOrder(t *testing.T) {
	z := newRig(t)
	peer := open(t, z.cfg)
	for i, d := range []time.Duration{200 * time.Millisecond, 300 * time.Millisecond} {
		_, err := z.s.Append(z.ctx, store.NewBatch(pawl.Message{ID: fmt.Sprint("d", i+1), Topic: "t", Key: []byte("k"),
			Delay: d}))
		z.check(err)
	}
	time.Sleep(220 * time.Millisecond)
	swept := make(chan error, 1)
	z.check(z.s.within(z.ctx, z.s.back, nil, func(x *tx) error { // as sweepLanes does, between its statements
		var lanes []int64
		if err := x.run(z.ctx, read(joining, func(r row) error {
			lanes = append(lanes, r.int8(0))
			return nil
		}, z.s.skewValue(), timeValue(math.MinInt64))); err != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
		go func() {
			_, err := peer.sweepLanes(z.ctx, math.MinInt64)
			swept <- err
		}()
		waitsForLock(t, z.at, z.cfg.Schema)
		var topics []int32
		return z.s.join(z.ctx, x, lanes, &topics)
	}))
	z.check(<-swept)
	if ds := z.claim(10, 10); len(ds) != 2 || ds[0].ID != "d1" {
		t.Errorf("claimed %v", idsOf(ds))
	}
}

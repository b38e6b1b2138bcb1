package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// appendAll appends messages and returns the receipts.
func (z *rig) appendAll(msgs ...pawl.Message) []store.Receipt {
	z.Helper()
	rs, err := z.s.Append(z.ctx, store.NewBatch(msgs...))
	z.check(err)
	return rs
}

// kill lets deliveries die, in one batch.
func (z *rig) kill(ds ...pawl.Delivery) {
	z.Helper()
	var b []store.Settlement
	for _, d := range ds {
		b = append(b, store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Dead,
			Failure: store.Failure{Kind: "K", Error: "died"}})
	}
	refused, err := z.s.Settle(z.ctx, store.NewBatch(b...))
	if z.check(err); len(refused) > 0 {
		z.Fatalf("refused %v", refused)
	}
}

// An append that had to wait finds what happened to its ids meanwhile: what died
// or was acked then is not stored a second time.
func TestWhatEndedWhileAnAppendWaitedIsADuplicate(t *testing.T) {
	for name, end := range map[string]func(*rig, pawl.Delivery){
		"died":         func(z *rig, d pawl.Delivery) { z.kill(d) },
		"acked":        func(z *rig, d pawl.Delivery) { z.ack(d) },
		"acked, in tx": func(z *rig, d pawl.Delivery) { z.ack(d) },
	} {
		t.Run(name, func(t *testing.T) {
			z := newRig(t)
			_, err := z.s.Declare(z.ctx, store.Declaration{Name: "t", Retain: new(time.Hour)})
			z.check(err)
			_, holder := z.tx()
			_, err = z.s.AppendTx(z.ctx, holder, store.NewBatch(pawl.Message{Topic: "t",
				Unique: pawl.Unique{Key: "k"}}))
			z.check(err)
			call := z.s.Append
			if name == "acked, in tx" {
				_, own := z.tx()
				call = func(ctx context.Context, b store.Batch[pawl.Message]) ([]store.Receipt, error) {
					defer func() { z.check(own.Commit(z.ctx)) }()
					return z.s.AppendTx(ctx, own, b)
				}
			}
			appended := make(chan []store.Receipt, 1)
			go func() {
				rs, err := call(z.ctx, store.NewBatch(pawl.Message{ID: "a", Topic: "t"},
					pawl.Message{ID: "b", Topic: "t", Unique: pawl.Unique{Key: "k"}}))
				if err != nil {
					t.Error(err)
				}
				appended <- rs
			}()
			waitsForLock(t, z.at, z.cfg.Schema)
			z.appendAll(pawl.Message{ID: "a", Topic: "t"})
			ds := z.claim(10, 1)
			if len(ds) != 1 {
				t.Fatalf("claimed %v", idsOf(ds))
			}
			end(z, ds[0])
			z.check(holder.Rollback(z.ctx))
			rs := <-appended
			if len(rs) != 2 || rs[0].DuplicateOf != "a" || rs[1].DuplicateOf != "" {
				t.Errorf("receipts %+v; want the first a duplicate", rs)
			}
			if ds := z.claim(10, 1); len(ds) != 1 || ds[0].ID != "b" {
				t.Errorf("claimed %v, want b", idsOf(ds))
			}
		})
	}
}

// A transaction that does not see what others commit cannot know which ids are
// there. It is refused, and goes on as it was.
func TestStrictTransactionIsRefused(t *testing.T) {
	z := newRig(t)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		c, err := pgx.Connect(z.ctx, z.at)
		z.check(err)
		tx, err := c.BeginTx(z.ctx, pgx.TxOptions{IsoLevel: level})
		z.check(err)
		_, err = tx.Exec(z.ctx, "SELECT count(*) FROM pg_class")
		z.check(err)
		if _, err = z.s.AppendTx(z.ctx, tx, store.NewBatch(pawl.Message{Topic: "t", Key: []byte("k")})); !errors.Is(err,
			store.ErrInvalid) {
			t.Errorf("%s: %v; want %v", level, err, store.ErrInvalid)
		}
		z.check(tx.Commit(z.ctx))
		z.check(c.Close(z.ctx))
	}
	if ds := z.claim(10, 1); len(ds) > 0 {
		t.Errorf("claimed %v", idsOf(ds))
	}
}

// A message whose id has a letter already can be settled, and so can everything
// beside it. The letter stays as it is, and the figures stay right.
func TestLetterThatIsThereStays(t *testing.T) {
	z := newRig(t)
	refused, err := z.s.Import(z.ctx, someLetters("x")...)
	if z.check(err); len(refused) > 0 {
		t.Fatal(refused)
	}
	z.appendAll(pawl.Message{ID: "a", Topic: "t"}, pawl.Message{ID: "b", Topic: "t"})
	_, tx := z.tx()
	_, err = tx.Exec(z.ctx, "UPDATE "+z.cfg.Schema+".dead SET id = $1", sqlstore.EncodeID("a"))
	z.check(err)
	z.check(tx.Commit(z.ctx))
	if rs := z.appendAll(pawl.Message{ID: "a", Topic: "t"}); rs[0].DuplicateOf != "a" {
		t.Errorf("receipt %+v; want a duplicate", rs[0])
	}
	z.kill(z.claim(10, 1)...)
	reasons := map[string]string{}
	for r, err := range z.s.Dead(z.ctx, store.DeadFilter{}) {
		z.check(err)
		reasons[r.ID] = r.Reason
	}
	if len(reasons) != 2 || reasons["a"] != "r" || reasons["b"] != "died" {
		t.Errorf("letters and their reasons: %v", reasons)
	}
	st, err := z.s.Stats(z.ctx)
	if z.check(err); st[0].Dead != 2 || st[0].Waiting != 0 || st[0].Leased != 0 {
		t.Errorf("figures %+v", st[0])
	}
}

// A claim that cannot be swept keeps neither other claims from being swept nor
// what waits from being claimed.
func TestSweepLeavesWhatItCannotSweep(t *testing.T) {
	z := newRig(t)
	z.add("a", "k")
	short := store.Lease{For: 50 * time.Millisecond}
	held, err := z.s.Claim(z.ctx, []store.Want{{Topic: "t", Limit: 1}}, short)
	z.check(err)
	_, tx := z.tx()
	_, err = tx.Exec(z.ctx, "SELECT FROM "+z.cfg.Schema+".lease WHERE lane = $1 FOR UPDATE", held[0].Token.Lane)
	z.check(err)
	z.appendAll(pawl.Message{ID: "b", Topic: "t"})
	_, err = z.s.Claim(z.ctx, []store.Want{{Topic: "t", Limit: 1}}, short)
	z.check(err)
	z.appendAll(pawl.Message{ID: "c", Topic: "u"})
	want := func(id, topic string, rescues int) {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			ds, err := z.s.Claim(z.ctx, []store.Want{{Topic: topic, Limit: 1}}, store.Lease{For: time.Minute})
			z.check(err)
			if len(ds) == 1 {
				if ds[0].ID != id || ds[0].Rescues != rescues {
					t.Fatalf("claimed %s, rescued %d times; want %s", ds[0].ID, ds[0].Rescues, id)
				}
				return
			}
		}
		t.Fatalf("%s was not claimed", id)
	}
	want("c", "u", 0)
	want("b", "t", 1)
	z.check(tx.Rollback(z.ctx))
	want("a", "t", 1)
}

// A transaction that found a unique key taken, and stays open, keeps nobody from
// ending the message that has it.
func TestDuplicateInAnOpenTransactionStallsNobody(t *testing.T) {
	z := newRig(t)
	for _, key := range []string{"cancelled", "dead", "swept"} {
		m := pawl.Message{ID: key, Topic: key, Unique: pawl.Unique{Key: key}}
		z.appendAll(m)
	}
	claim := func(topic string, l store.Lease) pawl.Delivery {
		t.Helper()
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			ds, err := z.s.Claim(z.ctx, []store.Want{{Topic: topic, Limit: 1}}, l)
			if z.check(err); len(ds) == 1 {
				return ds[0]
			}
		}
		t.Fatalf("nothing to claim of %s", topic)
		return pawl.Delivery{}
	}
	dies := claim("dead", store.Lease{For: time.Minute})
	for rescues := 0; rescues < store.SolitaryAfter+store.LonelyRescues-1; {
		rescues = claim("swept", store.Lease{For: 50 * time.Millisecond, Suspects: store.MaxSuspects,
			Alone: true}).Rescues
	}
	_, tx := z.tx()
	for _, key := range []string{"cancelled", "dead", "swept"} {
		rs, err := z.s.AppendTx(z.ctx, tx, store.NewBatch(pawl.Message{Topic: key, Unique: pawl.Unique{Key: key}}))
		if z.check(err); rs[0].DuplicateOf != key {
			t.Fatalf("receipt %+v; want a duplicate of %s", rs[0], key)
		}
	}
	at := time.Now()
	refused, err := z.s.Cancel(z.ctx, "cancelled")
	if z.check(err); len(refused) > 0 {
		t.Errorf("cancel refused %v", refused)
	}
	z.kill(dies)
	if took := time.Since(at); took > time.Second {
		t.Errorf("cancel and settle took %v", took)
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, err := z.s.Claim(z.ctx, []store.Want{{Topic: "none", Limit: 1}}, store.Lease{For: time.Minute})
		z.check(err)
		if r, err := z.s.Get(z.ctx, "swept"); err != nil || r.State == store.IsDead {
			z.check(err)
			break
		}
		if time.Now().After(end) {
			t.Fatal("what nobody settled is not swept while the transaction is open")
		}
	}
	z.check(tx.Rollback(z.ctx))
}

// An append goes on however many of its ids come in between, one after the other.
func TestManyIDsComeInBetween(t *testing.T) {
	z := newRig(t)
	z.appendAll(pawl.Message{Topic: "t"})
	ids := []string{"a", "b", "c", "d", "e", "f"}
	var msgs []pawl.Message
	var conns []*pgx.Conn
	var txs []pgx.Tx
	for _, id := range ids {
		m := pawl.Message{ID: id, Topic: "t"}
		c, tx := z.tx()
		_, err := z.s.AppendTx(z.ctx, tx, store.NewBatch(m))
		z.check(err)
		msgs, conns, txs = append(msgs, m), append(conns, c), append(txs, tx)
	}
	_, own := z.tx()
	answers := make(chan []store.Receipt, 2)
	go func() {
		rs, err := z.s.Append(z.ctx, store.NewBatch(slices.Concat(msgs, []pawl.Message{{ID: "new", Topic: "t"}})...))
		if err != nil {
			t.Errorf("append: %v", err)
		}
		answers <- rs
	}()
	go func() {
		rs, err := z.s.AppendTx(z.ctx, own, store.NewBatch(slices.Concat(msgs,
			[]pawl.Message{{ID: "newer", Topic: "t"}})...))
		if err != nil {
			t.Errorf("append in a transaction: %v", err)
		}
		answers <- rs
	}()
	for i, tx := range txs {
		z.waits(2, conns[i])
		z.check(tx.Commit(z.ctx))
	}
	for range 2 {
		rs := <-answers
		if len(rs) != len(ids)+1 {
			t.Fatalf("receipts %+v", rs)
		}
		for i, r := range rs {
			if duplicate := i < len(ids); duplicate != (r.DuplicateOf != "") {
				t.Errorf("receipt %+v", r)
			}
		}
	}
	z.check(own.Rollback(z.ctx))
}

// waits returns when n sessions wait for somebody's.
func (z *rig) waits(n int, c *pgx.Conn) {
	z.Helper()
	look, err := pgx.Connect(z.ctx, z.at)
	z.check(err)
	defer func() { _ = look.Close(context.Background()) }()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		waiting := 0
		z.check(look.QueryRow(z.ctx, "SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))",
			int(c.PgConn().PID())).Scan(&waiting))
		if waiting >= n {
			return
		}
	}
	z.Fatal("nobody waits")
}

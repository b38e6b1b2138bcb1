package postgres

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestTheServersLogStaysClean: what a call answers is in rows. No statement fails to say it,
// so nothing of normal operation is an error in the server's log.
func TestTheServersLogStaysClean(t *testing.T) {
	log := os.Getenv("PAWL_TEST_POSTGRES_LOG")
	if log == "" {
		t.Skip("PAWL_TEST_POSTGRES_LOG is not set: dev/services run -- go test ./store/postgres")
	}
	at := server(t)
	schema := freshSchema(t, at)
	between := "?"
	if strings.Contains(at, "?") {
		between = "&"
	}
	z := &rig{T: t, at: at, ctx: t.Context()}
	z.cfg = Config{URL: at + between + "application_name=" + schema, Schema: schema, AutoMigrate: true, MaxConns: 8}
	z.s = open(t, z.cfg)
	before, err := os.Stat(log)
	z.check(err)

	z.repeats()
	z.races()
	z.appendsWhatIsDue()
	z.appendsInStrictTransaction()
	z.sameIDTwice()

	text, err := os.ReadFile(log)
	z.check(err)
	for line := range bytes.Lines(text[before.Size():]) {
		if bytes.Contains(line, []byte(schema+" ERROR")) || bytes.Contains(line, []byte(schema+" FATAL")) {
			t.Errorf("in the server's log: %s", line)
		}
	}
}

// repeats repeats calls of each kind under their batch ids.
func (z *rig) repeats() {
	for _, key := range []string{"", "k"} {
		m := pawl.Message{Topic: "t", Body: []byte("x")}
		if key != "" {
			m.Key = []byte(key)
		}
		sent := store.NewBatch(m, m, m)
		for range 2 {
			rs, err := z.s.Append(z.ctx, sent)
			if z.check(err); len(rs) != 3 || rs[0].DuplicateOf != "" {
				z.Fatalf("%+v", rs)
			}
		}
		ds := z.claim(3, 3)
		if len(ds) != 3 {
			z.Fatalf("%d messages of an append that was repeated", len(ds))
		}
		ack := store.NewBatch(store.Settlement{Token: ds[0].Token, ID: ds[0].ID, Verdict: store.Ack})
		rest := store.NewBatch(store.Settlement{Token: ds[1].Token, ID: ds[1].ID, Verdict: store.Ack,
			Emit: []pawl.Message{{Topic: "out"}}},
			store.Settlement{Token: ds[2].Token, ID: ds[2].ID, Verdict: store.Dead,
				Failure: store.Failure{Kind: "K", Error: "e"}})
		for range 2 {
			for _, b := range []store.Batch[store.Settlement]{ack, rest} {
				if refused, err := z.s.Settle(z.ctx, b); err != nil || len(refused) > 0 {
					z.Fatal(refused, err)
				}
			}
		}
	}
}

// races sends messages of the same ids and unique keys from several at once, while those with ids are settled. What has
// a unique key stays: to settle it in a batch with an id that waits for it is a deadlock, which is repeated.
func (z *rig) races() {
	peer := open(z.T, z.cfg)
	var all sync.WaitGroup
	for n, s := range []*Store{z.s, peer, z.s, peer} {
		all.Go(func() {
			for i := range 60 {
				ms := []pawl.Message{
					{ID: fmt.Sprint("same", i), Topic: "r"},
					{Topic: "u", Unique: pawl.Unique{Key: fmt.Sprint(i / 2)}},
					{ID: fmt.Sprint(n, "-", i), Topic: "r", Key: []byte("k")},
				}
				if _, err := s.Append(z.ctx, store.NewBatch(ms...)); err != nil {
					z.Error(err)
				}
				ds, err := s.Claim(z.ctx, []store.Want{{Topic: "r", Limit: 4, Run: 2}}, store.Lease{For: time.Minute})
				if err != nil {
					z.Error(err)
				}
				var b []store.Settlement
				for _, d := range ds {
					b = append(b, store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack})
				}
				if _, err := s.Settle(z.ctx, store.NewBatch(b...)); err != nil && len(b) > 0 {
					z.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// appendsWhatIsDue appends to a lane that a delayed message joins first.
func (z *rig) appendsWhatIsDue() {
	late := pawl.Message{ID: "late", Topic: "d", Key: []byte("k"), Delay: time.Millisecond}
	for i := range 20 {
		late.ID = fmt.Sprint("late", i)
		z.appendAll(late)
		time.Sleep(2 * time.Millisecond)
		z.appendAll(pawl.Message{ID: fmt.Sprint("next", i), Topic: "d", Key: []byte("k")})
	}
	ds, err := z.s.Claim(z.ctx, []store.Want{{Topic: "d", Limit: 40, Run: 40}}, store.Lease{For: time.Minute})
	if z.check(err); len(ds) != 40 || ds[38].ID != "late19" || ds[39].ID != "next19" {
		z.Fatalf("%q", idsOf(ds))
	}
}

// appendsInStrictTransaction is refused, and the transaction goes on.
func (z *rig) appendsInStrictTransaction() {
	c, err := pgx.Connect(z.ctx, z.cfg.URL)
	z.check(err)
	defer func() { z.check(c.Close(z.ctx)) }()
	tx, err := c.BeginTx(z.ctx, pgx.TxOptions{IsoLevel: pgx.Serializable})
	z.check(err)
	for _, id := range []string{"", "given"} {
		_, err := z.s.AppendTx(z.ctx, tx, store.NewBatch(pawl.Message{ID: id, Topic: "t"}))
		if !errors.Is(err, store.ErrInvalid) {
			z.Fatal(err)
		}
	}
	_, err = tx.Exec(z.ctx, "SELECT 1")
	z.check(err)
	z.check(tx.Rollback(z.ctx))
}

// sameIDTwice is a batch in which what becomes of one message depends on another.
func (z *rig) sameIDTwice() {
	first := z.appendAll(pawl.Message{Topic: "t", Unique: pawl.Unique{Key: "u"}})
	rs := z.appendAll(pawl.Message{ID: "a", Topic: "t", Unique: pawl.Unique{Key: "u"}}, pawl.Message{ID: "a", Topic: "t"})
	if rs[0].DuplicateOf != first[0].ID || rs[1].DuplicateOf != "" {
		z.Fatalf("%+v", rs)
	}
}

package guide_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/sqlite"
)

func paid(ctx context.Context, s *sqlite.Store, db *sql.DB, d *pawl.Delivery) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `UPDATE account SET balance = balance + 1`); err != nil {
		return err
	}
	if err := store.AckTx(ctx, s, tx, d); err != nil {
		return err // pawl.ErrLeaseLost: somebody else has the message
	}
	return tx.Commit() // the row is changed and the message is done, or neither
}

// TestAckInATransaction: what a handler writes and its ack are one, whatever goes wrong between them.
func TestAckInATransaction(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "shop.db")
	s, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{`CREATE TABLE account (balance INTEGER)`, `INSERT INTO account VALUES (0)`} {
		if _, err := db.ExecContext(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	const n = 40
	for i := range n {
		m := pawl.Message{Topic: "pay", Body: fmt.Append(nil, i)}
		if i%2 == 0 {
			m.Key = fmt.Append(nil, "k", i%4) // runs and lanes
		}
		if err := store.Send(ctx, s, m); err != nil {
			t.Fatal(err)
		}
	}
	failing := errors.New("after the ack, before the commit")
	handle := pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
		if d.Attempt > 1 || d.Body[len(d.Body)-1]%3 > 0 {
			return paid(ctx, s, db, d)
		}
		tx, err := db.BeginTx(ctx, nil) // the first attempt of every third is rolled back with its ack
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, `UPDATE account SET balance = balance + 1`); err != nil {
			return err
		}
		return errors.Join(store.AckTx(ctx, s, tx, d), failing)
	})
	d, err := dispatch.New(s, dispatch.Config{UntilEmpty: true, Topics: []dispatch.Topic{{Name: "pay", Handler: handle,
		Concurrency: 4, Retries: policy.Retries{Base: 1, Max: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(ctx); err != nil {
		t.Fatal(err)
	}
	var balance int
	if err := db.QueryRowContext(ctx, `SELECT balance FROM account`).Scan(&balance); err != nil || balance != n {
		t.Errorf("balance %d, want %d: %v", balance, n, err)
	}
	stats, err := s.Stats(ctx, "pay")
	if err != nil || stats[0].Acked != n || stats[0].Rescues != 0 || stats[0].Leased != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
	if got := d.Snapshot().Topics[0]; got.Zombies != 0 {
		t.Errorf("%+v", got)
	}
}

// TestAckThatWasNotCommitted: a handler that returns nil without a commit has not acked, and the message comes again at
// once.
func TestAckThatWasNotCommitted(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "shop.db")
	s, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := store.Send(ctx, s, pawl.Message{Topic: "pay", Key: []byte("k")}); err != nil {
		t.Fatal(err)
	}
	calls := 0
	handle := pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
		if calls++; calls > 1 {
			return nil
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return store.AckTx(ctx, s, tx, d)
	})
	d, err := dispatch.New(s, dispatch.Config{UntilEmpty: true, Topics: []dispatch.Topic{{Name: "pay", Handler: handle}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(ctx); err != nil || calls != 2 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/enginetest"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/storetest"
)

// harness opens stores in files of their own, with a clock that the suite moves.
func harness() storetest.Harness {
	return storetest.Harness{Open: func(t testing.TB) *storetest.Instance {
		var ahead atomic.Int64
		c := Config{
			Path: filepath.Join(t.TempDir(), "pawl.db"),
			Now:  func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
		}
		s := open(t, c)
		t.Cleanup(func() { intact(t, c.Path) })
		in := &storetest.Instance{
			Store: s, Advance: func(d time.Duration) { ahead.Add(int64(d)) },
			SetBack: func(d time.Duration) { // the next transaction that writes, or a claim, notices
				ahead.Add(-int64(d))
				if _, err := s.Claim(context.Background(), []store.Want{{Topic: "none", Limit: 1}},
					store.Lease{For: time.Second, Owner: "w"}); err != nil {
					t.Fatal(err)
				}
			},
			TxStalls: "whose transaction is open, all others wait",
		}
		in.AckTx = func(t testing.TB, token pawl.Token, commit bool) (err error) {
			db, err := sql.Open("sqlite", "file:"+c.Path+"?_txlock=immediate&_busy_timeout=5000")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			tx, err := db.BeginTx(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err = store.AckTx(context.Background(), in.Store, tx, &pawl.Delivery{Token: token}); err == nil && commit {
				return tx.Commit()
			}
			return errors.Join(err, tx.Rollback())
		}
		in.Peer = func(t testing.TB) store.Store { return open(t, c) }
		in.Crash = func(t testing.TB) store.Store { return open(t, c) } // the first is left as it is
		in.Reopen = func(t testing.TB) store.Store {
			if err := in.Store.Close(); err != nil {
				t.Fatal(err)
			}
			return open(t, c)
		}
		in.Tx = func(t testing.TB, do func(func(store.Batch[pawl.Message]) ([]store.Receipt, error)) bool) {
			inTx(t, s, c.Path, do)
		}
		return in
	}}
}

func open(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// inTx runs do in a transaction of an application that has the file open.
func inTx(t testing.TB, s *Store, path string, do func(func(store.Batch[pawl.Message]) ([]store.Receipt, error)) bool) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_busy_timeout=5000")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	commit := do(func(b store.Batch[pawl.Message]) ([]store.Receipt, error) {
		return s.AppendTx(context.Background(), tx, b)
	})
	if !commit {
		return
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestContract(t *testing.T) { storetest.Run(t, harness()) }

func TestEngine(t *testing.T) { enginetest.Run(t, harness()) }

func BenchmarkStore(b *testing.B) { storetest.Bench(b, harness()) }

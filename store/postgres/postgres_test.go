package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/enginetest"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/storetest"
)

// server returns the URL of the server under test. Without one a test is
// skipped, visibly; where it is required, it fails.
func server(t testing.TB) string {
	t.Helper()
	at := os.Getenv("PAWL_TEST_POSTGRES")
	if at == "" {
		if slices.Contains(strings.Split(os.Getenv("PAWL_TEST_REQUIRE"), ","), "postgres") {
			t.Fatal("PAWL_TEST_POSTGRES is not set, but PAWL_TEST_REQUIRE asks for postgres")
		}
		t.Skip("PAWL_TEST_POSTGRES is not set: dev/services run -- go test ./store/postgres")
	}
	return at
}

// freshSchema names a schema that is dropped at the end.
func freshSchema(t testing.TB, at string) string {
	t.Helper()
	var b [8]byte
	_, _ = rand.Read(b[:])
	name := "t_" + hex.EncodeToString(b[:])
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		c, err := pgx.Connect(ctx, at)
		if err != nil {
			t.Logf("drop schema: %v", err)
			return
		}
		defer c.Close(ctx)
		if _, err := c.Exec(ctx, "DROP SCHEMA IF EXISTS "+name+" CASCADE"); err != nil {
			t.Logf("drop schema: %v", err)
		}
	})
	return name
}

// open opens a store, which is closed at the end.
func open(t testing.TB, cfg Config) *Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func harness(change ...func(*Config)) storetest.Harness {
	return storetest.Harness{Open: func(t testing.TB) *storetest.Instance {
		at := server(t)
		skew := new(atomic.Int64)
		cfg := Config{
			URL: at, Schema: freshSchema(t, at), AutoMigrate: true, MaxConns: 4, NoChores: true,
			Skew: func() time.Duration { return time.Duration(skew.Load()) },
		}
		for _, c := range change {
			c(&cfg)
		}
		in := &storetest.Instance{
			Store:   open(t, cfg),
			Advance: func(d time.Duration) { skew.Add(int64(d)) },
			Peer:    func(t testing.TB) store.Store { return open(t, cfg) },
		}
		in.SetBack = func(d time.Duration) { // a process looks each few seconds
			s := in.Store.(*Store)
			err := s.watch(context.Background())
			if skew.Add(-int64(d)); err == nil {
				err = s.watch(context.Background())
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		in.Reopen = func(t testing.TB) store.Store {
			if err := in.Store.Close(); err != nil {
				t.Fatal(err)
			}
			in.Store = open(t, cfg)
			return in.Store
		}
		in.Crash = func(t testing.TB) store.Store {
			in.Store = open(t, cfg) // the old handle is left alone: nobody told the server
			return in.Store
		}
		in.AckTx = func(t testing.TB, token pawl.Token, commit bool) error {
			db, err := sql.Open("pgx", cfg.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			tx, err := db.BeginTx(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			return ackedIn(tx, commit, store.AckTx(context.Background(), in.Store, tx, &pawl.Delivery{Token: token}))
		}
		in.Tx = func(t testing.TB, do func(func(store.Batch[pawl.Message]) ([]store.Receipt, error)) bool) {
			inTx(t, cfg, in.Store.(*Store), do)
		}
		return in
	}}
}

// ackedIn ends a transaction with an ack in it.
func ackedIn(tx *sql.Tx, commit bool, err error) error {
	if commit && err == nil {
		return tx.Commit()
	}
	return errors.Join(err, tx.Rollback())
}

// inTx runs do in a transaction of a user's own connection.
func inTx(t testing.TB, cfg Config, s *Store, do func(func(store.Batch[pawl.Message]) ([]store.Receipt, error)) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := pgx.Connect(ctx, cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	commit := do(func(b store.Batch[pawl.Message]) ([]store.Receipt, error) { return s.AppendTx(ctx, tx, b) })
	if commit {
		err = tx.Commit(ctx)
	} else {
		err = tx.Rollback(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestContract(t *testing.T) { storetest.Run(t, harness()) }

func TestEngine(t *testing.T) { enginetest.Run(t, harness()) }

func BenchmarkStore(b *testing.B) { storetest.Bench(b, harness(func(c *Config) { c.Skew = nil })) }

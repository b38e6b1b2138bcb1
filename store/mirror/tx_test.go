package mirror_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/mirror"
	"github.com/pawl-dev/pawl/store/postgres"
)

// overPostgres is a mirror from PostgreSQL to memory, and a connection to append with.
func overPostgres(t *testing.T) (*pair, *pgx.Conn) {
	t.Helper()
	at := os.Getenv("PAWL_TEST_POSTGRES")
	if at == "" {
		if slices.Contains(strings.Split(os.Getenv("PAWL_TEST_REQUIRE"), ","), "postgres") {
			t.Fatal("PAWL_TEST_POSTGRES is not set, but PAWL_TEST_REQUIRE asks for postgres")
		}
		t.Skip("PAWL_TEST_POSTGRES is not set: dev/services run -- go test ./store/mirror")
	}
	conn, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	schema := "mirror_" + strconv.FormatUint(rand.Uint64(), 36)
	t.Cleanup(func() {
		_, _ = conn.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
		_ = conn.Close(context.Background())
	})
	old, err := postgres.Open(t.Context(), postgres.Config{URL: at, Schema: schema, AutoMigrate: true, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{new: memory.New(memory.Config{})}
	if p.Store, err = mirror.New(old, p.new, mirror.Config{Tx: []mirror.Tx{mirror.TxOf[pgx.Tx]()}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	if p.plans, err = mirror.OpenPlans(old); err != nil {
		t.Fatal(err)
	}
	return p, conn
}

// TestAppendTxOnPostgres: what is appended in a transaction of the caller is there if it
// commits, counts as missed while the topic is copied, waits while it is closed, and is
// refused once it has moved; the transaction can be used after that.
func TestAppendTxOnPostgres(t *testing.T) {
	p, conn := overPostgres(t)
	appender, ok := store.As[store.TxStore[pgx.Tx]](p.Store)
	if !ok {
		t.Fatal("the mirror has no AppendTx for transactions of pgx")
	}
	looker, _ := store.As[store.Inspector](p.Store)
	there := func(id string) bool {
		t.Helper()
		_, err := looker.Get(t.Context(), id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Fatal(err)
		}
		return err == nil
	}
	inTx := func(commit bool, ids ...string) error {
		t.Helper()
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var batch store.Batch[pawl.Message]
		for _, id := range ids {
			batch.Items = append(batch.Items, pawl.Message{Topic: "mail", ID: id})
		}
		_, failed := appender.AppendTx(t.Context(), tx, batch)
		if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Errorf("after %v the transaction cannot be used: %v", failed, err)
		}
		end := tx.Rollback
		if commit {
			end = tx.Commit
		}
		if err := end(t.Context()); err != nil {
			t.Fatal(err)
		}
		return failed
	}

	if err := inTx(true, "off"); err != nil || !there("off") {
		t.Fatalf("before anything is copied: %v, it is there: %v", err, there("off"))
	}
	p.stage(t, "mail", func(plan *mirror.Plan) { plan.Stage = mirror.Dual })
	if err := inTx(true, "dual", "dual too"); err != nil || !there("dual") {
		t.Fatalf("while it is copied: %v, it is there: %v", err, there("dual"))
	}
	if err := inTx(false, "taken back"); err != nil || there("taken back") {
		t.Fatalf("rolled back: %v, it is there: %v", err, there("taken back"))
	}
	if s := p.Stats()["mail"]; s.Missed != 3 || s.Written != 0 {
		t.Errorf("while it is copied: %+v; want 3 that are missed", s)
	}

	p.stage(t, "mail", func(plan *mirror.Plan) { // and it stays closed for a second
		now, err := p.plans.Clock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		plan.Stage, plan.From, plan.Until = mirror.Closing, mirror.Dual, now.Add(mirror.Fresh+time.Second)
	})
	refuseImpatient(t, appender, conn)

	p.stage(t, "mail", func(plan *mirror.Plan) {
		plan.Stage, plan.From, plan.Until = mirror.Draining, mirror.Off, time.Time{}
	})
	if err := inTx(true, "late"); !errors.Is(err, store.ErrUnsupported) || there("late") {
		t.Fatalf("when appends go to the new store: %v, it is there: %v; want %v", err, there("late"),
			store.ErrUnsupported)
	}
}

// refuseImpatient appends in a transaction to a topic that is closed for longer than it waits.
func refuseImpatient(t *testing.T, appender store.TxStore[pgx.Tx], conn *pgx.Conn) {
	t.Helper()
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	batch := store.NewBatch(pawl.Message{Topic: "mail", ID: "impatient"})
	if _, err := appender.AppendTx(short, tx, batch); err == nil {
		t.Error("appended while the topic is closed")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestAckTxIsRefused: the copy of a message would stay, and be carried out again after its topic has moved.
func TestAckTxIsRefused(t *testing.T) {
	p, conn := overPostgres(t)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	if err := store.AckTx(t.Context(), p.Store, tx, &pawl.Delivery{}); !errors.Is(err, store.ErrUnsupported) {
		t.Error(err)
	}
}

package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	_ "modernc.org/sqlite"

	"github.com/pawl-dev/pawl"
)

const table = `CREATE TABLE pawl_outbox (projection TEXT, doc_id TEXT CHECK (doc_id <> 'bad'), op TEXT, version INTEGER,
	doc TEXT, trace_id TEXT)`

// many are n changes, the last of that document.
func many(n int, last string) (all []Change) {
	for i := range n - 1 {
		all = append(all, Change{Projection: "p", DocID: fmt.Sprint(i), Doc: "{}"})
	}
	return append(all, Change{Projection: "p", DocID: last, Doc: "{}"})
}

// allOrNone inserts changes by something that is no transaction, in numbers about the bounds.
func allOrNone(t *testing.T, to any, count func() int) {
	t.Helper()
	there := count()
	for _, n := range []int{1, most, most + 1, mostAlone} {
		for last, more := range map[string]int{"bad": 0, "good": n} {
			there += more
			err := Insert(t.Context(), to, many(n, last)...)
			if (err == nil) != (last == "good") || count() != there {
				t.Errorf("%T, %d of them, the last one %s: %v, and %d are there, not %d", to, n, last, err, count(),
					there)
				there = count()
			}
		}
	}
}

// Of many changes, too, all are inserted or none, whatever they are given.
func TestAllOrNone(t *testing.T) {
	db, err := sql.Open("sqlite", t.TempDir()+"/t.db")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := db.Exec(table); err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		if err := db.QueryRow("SELECT count(*) FROM pawl_outbox").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	allOrNone(t, db, count)
	allOrNone(t, conn, count)
	there := count()
	err = Insert(t.Context(), conn, many(mostAlone+1, "good")...)
	if err == nil || !strings.Contains(err.Error(), "need a transaction") || count() != there {
		t.Errorf("too many for a connection: %v", err)
	}
	tx, err := conn.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Insert(t.Context(), tx, many(mostAlone+1, "good")...); err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(); err != nil || count() != there {
		t.Errorf("%v, and %d are there, not %d", err, count(), there)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := Insert(ended, db, many(most+1, "good")...); err == nil || count() != there {
		t.Errorf("with a context that has ended: %v", err)
	}
}

// TestAllOrNoneOnPostgres is the same for what pgx has.
func TestAllOrNoneOnPostgres(t *testing.T) {
	at := os.Getenv("PAWL_TEST_POSTGRES")
	if at == "" {
		if slices.Contains(strings.Split(os.Getenv("PAWL_TEST_REQUIRE"), ","), "postgres") {
			t.Fatal("PAWL_TEST_POSTGRES is not set, but PAWL_TEST_REQUIRE asks for postgres")
		}
		t.Skip("PAWL_TEST_POSTGRES is not set: dev/services run -- go test ./outbox")
	}
	config, err := pgxpool.ParseConfig(at)
	if err != nil {
		t.Fatal(err)
	}
	schema := "t_" + strings.ReplaceAll(pawl.NewID(), "-", "")
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), "CREATE SCHEMA "+schema); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = pool.Exec(context.WithoutCancel(t.Context()), "DROP SCHEMA "+schema+" CASCADE") }()
	if _, err := pool.Exec(t.Context(), table); err != nil {
		t.Fatal(err)
	}
	conn, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	count := func() (n int) {
		if err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pawl_outbox").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	allOrNone(t, pool, count)
	allOrNone(t, conn, count)
	allOrNone(t, conn.Conn(), count)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there := count()
	if err := Insert(t.Context(), tx, many(mostAlone+1, "good")...); err != nil || count() != there {
		t.Errorf("in a transaction: %v, and %d are there, not %d", err, count(), there)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
}

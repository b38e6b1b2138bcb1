package guide_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/sqlite"
)

func placeOrder(ctx context.Context, s *sqlite.Store, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES (42)`); err != nil {
		return err
	}
	if err := store.SendTx(ctx, s, tx, pawl.Message{Topic: "ship", Body: []byte("42")}); err != nil {
		return err
	}
	return tx.Commit() // the order and its message, or neither
}

func TestTransactionOnSQLite(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "shop.db")
	s, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, `CREATE TABLE orders (id INTEGER PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second one breaks the primary key, and takes its message back
		err = placeOrder(ctx, s, db)
	}
	if err == nil {
		t.Error("the same order twice: no error")
	}
	if got := waiting(t, s); got != "[42]" {
		t.Errorf("messages %s, want that of the order that was committed", got)
	}
}

// waiting are the bodies of what topic ship has.
func waiting(t *testing.T, s store.Inspector) string {
	t.Helper()
	bodies := []string{}
	for m, err := range s.List(t.Context(), store.Filter{Topic: "ship"}) {
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, string(m.Body))
	}
	return fmt.Sprint(bodies)
}

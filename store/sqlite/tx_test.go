package sqlite

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestAppendInATransactionThatSQLiteEnded: after some errors SQLite has rolled back, and the caller's transaction does
// not know of it. What is appended then would be stored at once.
func TestAppendInATransactionThatSQLiteEnded(t *testing.T) {
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "shop.db")
	s := open(t, Config{Path: path})
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, `CREATE TABLE orders (id INTEGER PRIMARY KEY ON CONFLICT ROLLBACK)`); err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders VALUES (42), (42)`); err == nil {
		t.Fatal("the same order twice: no error")
	}
	_, err = s.AppendTx(ctx, tx, store.NewBatch(pawl.Message{Topic: "ship"}))
	if !errors.Is(err, store.ErrInvalid) || !errors.Is(err, sql.ErrTxDone) {
		t.Errorf("error %v; want %v", err, store.ErrInvalid)
	}
	for m, err := range s.List(ctx, store.Filter{}) {
		t.Errorf("message %s of a transaction that was rolled back, error %v", m.ID, err)
	}
}

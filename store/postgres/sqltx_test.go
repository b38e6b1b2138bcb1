package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// shop is a store, and the database of an application as database/sql opens it.
type shop struct {
	*Store
	db       *sql.DB
	appender store.TxStore[*sql.Tx]
}

func openShop(t *testing.T) shop {
	t.Helper()
	at := server(t)
	s := open(t, Config{URL: at, Schema: freshSchema(t, at), AutoMigrate: true, MaxConns: 4})
	db, err := sql.Open("pgx", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	appender, ok := store.As[store.TxStore[*sql.Tx]](s)
	if !ok {
		t.Fatal("the store has no AppendTx for transactions of database/sql")
	}
	return shop{s, db, appender}
}

func (s shop) begin(t *testing.T, level sql.IsolationLevel) *sql.Tx {
	t.Helper()
	tx, err := s.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

func (s shop) count(t *testing.T) (n int) {
	t.Helper()
	for _, err := range s.List(t.Context(), store.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n
}

func TestSQLTxIsTheCallers(t *testing.T) {
	s, ctx := openShop(t), t.Context()
	msgs := []pawl.Message{
		{ID: "a", Topic: "ship", Body: []byte("1")},
		{Topic: "ship", Unique: pawl.Unique{Key: "u"}},
		{}, // refused by itself
	}
	back := s.begin(t, sql.LevelDefault)
	if _, err := s.appender.AppendTx(ctx, back, store.NewBatch(msgs...)); err != nil {
		t.Fatal(err)
	}
	if err := back.Rollback(); err != nil {
		t.Fatal(err)
	}
	if n := s.count(t); n != 0 {
		t.Errorf("%d messages after a rollback", n)
	}
	heard, err := s.Listen(ctx, "ship")
	if err != nil {
		t.Fatal(err)
	}
	tx, batch := s.begin(t, sql.LevelDefault), store.NewBatch(msgs...)
	first, err := s.appender.AppendTx(ctx, tx, batch)
	if err != nil || first[0].ID != "a" || first[2].Err == nil {
		t.Fatalf("receipts %+v, error %v", first, err)
	}
	again, err := s.appender.AppendTx(ctx, tx, batch)
	if err != nil || again[1].ID != first[1].ID || again[1].DuplicateOf != "" {
		t.Errorf("the same batch: receipts %+v, error %v; want the first ones", again, err)
	}
	same, err := s.appender.AppendTx(ctx, tx, store.NewBatch(msgs[:2]...))
	if err != nil || same[0].DuplicateOf != "a" || same[1].DuplicateOf != first[1].ID {
		t.Errorf("the same messages: receipts %+v, error %v; want duplicates", same, err)
	}
	if n := s.count(t); n != 0 {
		t.Errorf("%d messages before the commit", n)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	s.Wake("ship")
	select {
	case <-heard:
	case <-time.After(30 * time.Second):
		t.Error("Wake after the commit told no listener")
	}
	if n := s.count(t); n != 2 {
		t.Errorf("%d messages after the commit; want 2", n)
	}
}

// A refused append leaves the transaction as it was.
func TestSQLTxIsGoodAfterARefusal(t *testing.T) {
	s, ctx := openShop(t), t.Context()
	one := store.NewBatch(pawl.Message{Topic: "ship"})
	tx := s.begin(t, sql.LevelRepeatableRead)
	if _, err := s.appender.AppendTx(ctx, tx, one); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("REPEATABLE READ: error %v; want %v", err, store.ErrInvalid)
	}
	var n int
	if err := tx.QueryRowContext(ctx, "SELECT 7").Scan(&n); err != nil || n != 7 {
		t.Errorf("the transaction answers %d after that, error %v", n, err)
	}
	if err := tx.Commit(); err != nil {
		t.Error(err)
	}
	if _, err := s.appender.AppendTx(ctx, tx, one); !errors.Is(err, sql.ErrTxDone) || !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a transaction that has ended: error %v; want %v", err, sql.ErrTxDone)
	}
	tx = s.begin(t, sql.LevelDefault)
	if _, err := tx.ExecContext(ctx, "SELECT 1/0"); err == nil {
		t.Fatal("a division by zero has a result")
	}
	_, err := s.appender.AppendTx(ctx, tx, one)
	if !errors.Is(err, store.ErrInvalid) || !strings.Contains(err.Error(), "the transaction has failed") {
		t.Errorf("a transaction that has failed: error %v; want %v", err, store.ErrInvalid)
	}
	if n := s.count(t); n != 0 {
		t.Errorf("%d messages; want none", n)
	}
}

func TestSQLTxOfAnotherDriverIsRefused(t *testing.T) {
	s := openShop(t)
	for name, strict := range map[string]bool{"refuses the argument": true, "ignores it": false} {
		s.db = sql.OpenDB(otherDriver{strict: strict})
		_, err := s.appender.AppendTx(t.Context(), s.begin(t, sql.LevelDefault),
			store.NewBatch(pawl.Message{Topic: "ship"}))
		if e, ok := errors.AsType[*store.Error](err); !ok || !errors.Is(err, store.ErrInvalid) || e.Hint == "" {
			t.Errorf("a driver that %s: error %v; want %v with a hint", name, err, store.ErrInvalid)
		}
	}
}

// otherDriver is a driver that is not pgx. A strict one takes the arguments that
// database/sql knows, as most do.
type otherDriver struct{ strict bool }

func (d otherDriver) Connect(context.Context) (driver.Conn, error) {
	if d.strict {
		return otherConn{}, nil
	}
	return laxConn{}, nil
}
func (d otherDriver) Driver() driver.Driver { return nil }

type otherConn struct{}

func (otherConn) Prepare(string) (driver.Stmt, error) { return nil, errors.New("nothing is prepared") }
func (otherConn) Close() error                        { return nil }
func (otherConn) Begin() (driver.Tx, error)           { return otherTx{}, nil }
func (otherConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	return driver.ResultNoRows, nil
}

type laxConn struct{ otherConn }

func (laxConn) CheckNamedValue(*driver.NamedValue) error { return nil }

type otherTx struct{}

func (otherTx) Commit() error   { return nil }
func (otherTx) Rollback() error { return nil }

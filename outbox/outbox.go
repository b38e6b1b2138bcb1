// Package outbox inserts changes of documents into the outbox of a project pipeline, in the caller's own
// transaction: what it commits reaches the search index, what it rolls back never does. `pawl project init`
// makes the view that it inserts into; in any other language the statement is
//
//	INSERT INTO pawl_outbox (projection, doc_id, op, version, doc) VALUES ('search', '42', 'upsert', 7, '{"name":"x"}')
package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Op is what happened to a document.
type Op string

// The operations. The zero value of a [Change] is an upsert.
const (
	Upsert Op = "upsert"
	Delete Op = "delete"
)

// Change is one change of a document.
type Change struct {
	Projection string
	DocID      string
	Op         Op // empty is Upsert
	// Version is the document's own, a whole number that grows with every change. 0 or less: changes are in the order
	// of the commits of that document, for which PostgreSQL keeps others that change the document waiting until the end
	// of the transaction.
	Version int64
	// Doc is the whole document: JSON as []byte, json.RawMessage or string, or what encoding/json makes a
	// JSON object of.
	Doc any
	// TraceID is kept with a dead letter of the change; empty is none.
	TraceID string
}

// most is how many changes one statement of a transaction inserts, as a plan is made for each length. mostAlone is how
// many a statement by itself does: SQLite takes seconds for the parameters of 5,000.
const (
	most      = 500
	mostAlone = 1000
)

const columns = 6

// Insert inserts changes in tx, which is an *sql.Tx, an *sql.Conn or an *sql.DB, or a transaction, connection
// or pool of pgx. All of them are inserted, or none and the error says why. For that, an *sql.DB or a pool gets a
// transaction where there are many changes, and a connection, which may be in one, takes 1,000 at most.
func Insert(ctx context.Context, tx any, changes ...Change) error {
	exec, err := execOf(tx)
	if err != nil {
		return err
	}
	chunk := most
	if len(changes) > most {
		if begin := beginOf(tx); begin != nil {
			return within(ctx, begin, changes)
		}
		if isConn(tx) {
			if chunk = mostAlone; len(changes) > chunk {
				return fmt.Errorf("outbox: %d changes; a connection takes %d at once, more need a transaction",
					len(changes), chunk)
			}
		}
	}
	var args []any
	for i := range changes {
		if args, err = changes[i].appendTo(args); err != nil {
			return fmt.Errorf("outbox: change %d of document %q: %w", i, changes[i].DocID, err)
		}
	}
	for len(args) > 0 {
		n := min(len(args), chunk*columns)
		if err := exec(ctx, statement(n/columns), args[:n]); err != nil {
			return fmt.Errorf("outbox: insert: %w", err)
		}
		args = args[n:]
	}
	return nil
}

// beginFunc begins a transaction, and returns what commits it and what rolls it back.
type beginFunc func(ctx context.Context) (tx any, commit, rollback func() error, err error)

// within inserts changes in a transaction of its own.
func within(ctx context.Context, begin beginFunc, changes []Change) error {
	tx, commit, rollback, err := begin(ctx)
	if err != nil {
		return fmt.Errorf("outbox: begin a transaction: %w", err)
	}
	defer func() { _ = rollback() }() // after the commit it does nothing
	if err := Insert(ctx, tx, changes...); err != nil {
		return err
	}
	if err := commit(); err != nil {
		return fmt.Errorf("outbox: commit: %w", err)
	}
	return nil
}

// beginOf finds how a database or a pool begins a transaction; nil: it is something else. A pool of pgx is known by its
// method Acquire.
func beginOf(db any) beginFunc {
	if db, ok := db.(*sql.DB); ok {
		return func(ctx context.Context) (any, func() error, func() error, error) {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return nil, nil, nil, err
			}
			return tx, tx.Commit, tx.Rollback, nil
		}
	}
	begin := reflect.ValueOf(db).MethodByName("Begin")
	if !begin.IsValid() || !reflect.ValueOf(db).MethodByName("Acquire").IsValid() || begin.Type().NumIn() != 1 ||
		begin.Type().NumOut() != 2 || begin.Type().In(0) != reflect.TypeFor[context.Context]() {
		return nil
	}
	return func(ctx context.Context) (any, func() error, func() error, error) {
		out := begin.Call([]reflect.Value{reflect.ValueOf(ctx)})
		if err, _ := out[1].Interface().(error); err != nil {
			return nil, nil, nil, err
		}
		tx, ok := out[0].Interface().(interface {
			Commit(ctx context.Context) error
			Rollback(ctx context.Context) error
		})
		if !ok {
			return nil, nil, nil, errTx
		}
		return tx, func() error { return tx.Commit(ctx) },
			func() error { return tx.Rollback(context.WithoutCancel(ctx)) }, nil
	}
}

// isConn reports whether tx is a connection, of database/sql or, by their methods, of pgx or its pool.
func isConn(tx any) bool {
	if _, ok := tx.(*sql.Conn); ok {
		return true
	}
	v := reflect.ValueOf(tx)
	return v.MethodByName("IsClosed").IsValid() || v.MethodByName("Release").IsValid()
}

func (c *Change) appendTo(args []any) ([]any, error) {
	op := c.Op
	if op == "" {
		op = Upsert
	}
	var version, doc, trace any
	if c.Version > 0 {
		version = c.Version
	}
	if op == Upsert {
		text, err := c.text()
		if err != nil {
			return nil, err
		}
		doc = text
	}
	if c.TraceID != "" {
		trace = c.TraceID
	}
	return append(args, c.Projection, c.DocID, string(op), version, doc, trace), nil
}

func (c *Change) text() (string, error) {
	switch doc := c.Doc.(type) {
	case nil:
		return "", errors.New("an upsert needs a document")
	case string:
		return doc, nil
	case []byte:
		return string(doc), nil
	default:
		b, err := json.Marshal(doc)
		return string(b), err
	}
}

// statement inserts n changes.
func statement(n int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO pawl_outbox (projection, doc_id, op, version, doc, trace_id) VALUES ")
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		p := i * columns
		fmt.Fprintf(&b, "($%d,$%d,$%d,$%d,$%d,$%d)", p+1, p+2, p+3, p+4, p+5, p+6)
	}
	return b.String()
}

type execFunc func(ctx context.Context, query string, args []any) error

var errTx = errors.New("outbox: this is no transaction of database/sql or pgx")

// execOf finds the method that executes a statement. pgx's returns a type of pgx, which this package does not
// import, so that a program with another driver does not carry it: hence the reflection, once for a
// statement.
func execOf(tx any) (execFunc, error) {
	if db, ok := tx.(interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	}); ok {
		return func(ctx context.Context, query string, args []any) error {
			_, err := db.ExecContext(ctx, query, args...)
			return err
		}, nil
	}
	if tx == nil {
		return nil, errTx
	}
	exec := reflect.ValueOf(tx).MethodByName("Exec")
	if !exec.IsValid() {
		return nil, errTx
	}
	t := exec.Type()
	if t.NumIn() != 3 || !t.IsVariadic() || t.NumOut() != 2 || t.In(0) != reflect.TypeFor[context.Context]() ||
		t.In(1).Kind() != reflect.String || t.In(2) != reflect.TypeFor[[]any]() ||
		t.Out(1) != reflect.TypeFor[error]() {
		return nil, errTx
	}
	return func(ctx context.Context, query string, args []any) error {
		out := exec.CallSlice([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(query), reflect.ValueOf(args)})
		err, _ := out[1].Interface().(error)
		return err
	}, nil
}

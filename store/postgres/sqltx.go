package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx", for programs that open its databases

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var _ store.TxStore[*sql.Tx] = sqlAppender{}

// sqlAppender is the store for transactions of database/sql: a type has one
// method AppendTx, and that of [Store] is for pgx.Tx. It embeds the interface, so
// that it has neither that method nor Unwrap.
type sqlAppender struct {
	store.Store

	s *Store
}

// Unwrap is for [store.As], which finds the [store.TxStore] of *sql.Tx there.
func (s *Store) Unwrap() store.Store { return sqlAppender{s, s} }

// appendStatement is the statement that tracers see, and that another driver would execute.
const appendStatement = "-- pawl: messages are appended or acked in this transaction"

// AppendTx implements [store.TxStore]: tx is a transaction of
// github.com/jackc/pgx/v5/stdlib. Everything else is as with [Store.AppendTx].
func (a sqlAppender) AppendTx(ctx context.Context, tx *sql.Tx,
	batch store.Batch[pawl.Message]) (receipts []store.Receipt, err error) {
	err = a.inside(ctx, tx, func(c *pgx.Conn) (err error) {
		receipts, err = a.s.appendIn(ctx, c.PgConn(), batch)
		return err
	})
	return receipts, err
}

// AckTx implements [store.TxStore], in transactions as those of AppendTx.
func (a sqlAppender) AckTx(ctx context.Context, tx *sql.Tx, token pawl.Token) error {
	return a.inside(ctx, tx, func(c *pgx.Conn) error { return a.s.ackIn(ctx, c.PgConn(), token) })
}

// inside does something on the connection of a transaction.
func (a sqlAppender) inside(ctx context.Context, tx *sql.Tx, do func(*pgx.Conn) error) error {
	var refused error
	inside := &insider{do: func(c *pgx.Conn) error {
		refused = do(c)
		return refused
	}}
	_, err := tx.ExecContext(ctx, appendStatement, inside)
	switch {
	case refused != nil:
		return refused
	case errors.Is(err, sql.ErrTxDone):
		return txEnded(err)
	case inside.called && err == nil:
		return nil
	case inside.called || ctx.Err() != nil:
		return a.s.fail("append", err)
	case errors.Is(err, driver.ErrBadConn):
		return &store.Error{
			Op: "append", Code: store.ErrUnavailable, Err: err,
			Hint: "the connection of the transaction was lost: begin another one",
		}
	}
	if err == nil {
		err = errors.New("the driver ignores how the statement is made")
	}
	return &store.Error{
		Op: "append", Code: store.ErrInvalid, Err: fmt.Errorf("the transaction is not one of pgx: %w", err),
		Hint: `open the database with sql.Open("pgx", URL)`,
	}
}

// insider gets at the connection of a transaction, which database/sql hides: pgx
// lets a [pgx.QueryRewriter] among the arguments of a statement change it, and
// gives it the connection, on which nothing else happens meanwhile.
type insider struct {
	do     func(*pgx.Conn) error
	called bool
}

// RewriteQuery implements [pgx.QueryRewriter]. The statement stays as it is.
func (i *insider) RewriteQuery(_ context.Context, c *pgx.Conn, query string, args []any) (string, []any, error) {
	i.called = true
	return query, args, i.do(c)
}

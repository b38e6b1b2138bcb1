package postgres

import (
	"context"
	"errors"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var _ store.TxStore[pgx.Tx] = (*Store)(nil)

// AppendTx implements [store.TxStore]. The transaction must be one of the same database, of
// isolation READ COMMITTED: one of another database is refused with [store.ErrInvalid], and so is a stricter
// one, which does not see messages that died or were acked since it began. Appends are under savepoints: an error of
// AppendTx leaves the transaction as it was.
//
// While the transaction stays open, only appends of the same id or unique key, and
// changes of the topic's order, wait for it. An Append waits for two seconds and fails
// with [store.ErrUnavailable] then; a settlement that emits such a message is refused
// with that.
//
// Listeners in this process are not woken, because the messages are not committed yet;
// call [Store.Wake] after the commit, or rely on the next poll.
//
// A transaction of database/sql goes to the [store.TxStore] of *sql.Tx, which
// [store.As] finds; it keeps the same promises.
func (s *appender) AppendTx(ctx context.Context, dbtx pgx.Tx,
	batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	// The connection of a transaction that has ended may be in use elsewhere. An empty batch
	// asks for that without a round trip.
	if err := dbtx.SendBatch(ctx, &pgx.Batch{}).Close(); err != nil {
		return nil, txEnded(err)
	}
	return s.appendIn(ctx, dbtx.Conn().PgConn(), batch)
}

// AckTx implements [store.TxStore], in transactions as those of [Store.AppendTx]. While one stays open, only a claim
// or a settlement of the same lane waits for it.
func (s *Store) AckTx(ctx context.Context, dbtx pgx.Tx, token pawl.Token) error {
	if err := dbtx.SendBatch(ctx, &pgx.Batch{}).Close(); err != nil {
		return txEnded(err)
	}
	return s.ackIn(ctx, dbtx.Conn().PgConn(), token)
}

func (s *Store) ackIn(ctx context.Context, c *pgconn.PgConn, token pawl.Token) error {
	ctx, done, err := s.enter(ctx, "ack")
	if err != nil {
		return err
	}
	defer done()
	if err := s.usable(ctx, c); err != nil {
		return err
	}
	var a acks
	a.add(token, 0)
	p := s.settler.keyedPart(&a, nil)
	if token.Lane > 0 {
		p = s.settler.soloPart(&a, nil)
	}
	err = s.appender.savepoint(ctx, c, func(run func(...step) error) error {
		return run(slices.Concat(group{do(setSavepoint)}, p.steps, group{do(release)})...)
	})
	if err != nil {
		return s.fail("ack", err)
	}
	if len(p.lost) > 0 {
		return pawl.ErrLeaseLost
	}
	return nil
}

// usable refuses a transaction of a caller that has failed, or that is of another database: its rows would be stored
// there, or an ack would end another message's lease. A connection is asked for its database once.
func (s *core) usable(ctx context.Context, c *pgconn.PgConn) error {
	if c.TxStatus() == txFailed {
		return txEnded(errors.New("the transaction has failed: an earlier statement in it had an error"))
	}
	const key = "pawl database"
	where, _ := c.CustomData()[key].(string)
	own := s.database.Load()
	for _, again := range []bool{false, true} { // a server that was started again has another answer
		if where == "" || again {
			if err := s.exchange(ctx, c, false, []group{{read(whichDatabase, set(&where, row.text))}})[0]; err != nil {
				return s.fail("append", err)
			}
			c.CustomData()[key] = where
		}
		if own == nil || again {
			own = new(string)
			if err := s.call(ctx, s.front, read(whichDatabase, set(own, row.text))); err != nil {
				return s.fail("append", err)
			}
			s.database.Store(own)
		}
		if where == *own {
			return nil
		}
	}
	return &store.Error{Op: "append", Code: store.ErrInvalid, Err: errors.New("the transaction is of another database"),
		Hint: "begin it in the database of the store"}
}

// whichDatabase tells the databases of all servers apart.
const whichDatabase = `SELECT d.oid || ' ' || extract(epoch FROM pg_postmaster_start_time())
	FROM pg_database d WHERE d.datname = current_database()`

// txEnded is the error of a caller's transaction that has ended.
func txEnded(err error) error {
	return &store.Error{Op: "append", Code: store.ErrInvalid, Err: err,
		Hint: "append before the commit; after an error, roll back and begin another transaction"}
}

const (
	txFailed     = 'E' // as [pgconn.PgConn.TxStatus] has it
	setSavepoint = "SAVEPOINT pawl_append"
	release      = "RELEASE SAVEPOINT pawl_append"
	rollbackTo   = "ROLLBACK TO SAVEPOINT pawl_append"
)

// savepoint lets try run steps on the caller's connection under that savepoint, which it
// sets and releases, and takes them back if it fails. Statements have no names there: the
// session is not ours.
func (s *appender) savepoint(ctx context.Context, c *pgconn.PgConn, try func(run func(...step) error) error) error {
	run := func(steps ...step) error { return s.exchange(ctx, c, false, []group{steps})[0] }
	err := try(run)
	if err != nil && (isServer(err) || isStop(err)) {
		if back := run(do(rollbackTo), do(release)); back != nil {
			return back
		}
	}
	return err
}

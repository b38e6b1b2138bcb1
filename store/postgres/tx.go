package postgres

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

var _ store.TxAppender[pgx.Tx] = (*Store)(nil)

// stopUnlessCommitted fails in a transaction that does not see what others
// commit after its first statement.
const stopUnlessCommitted = `SELECT ('pawl isolation ' || current_setting('transaction_isolation'))::int
	WHERE current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted')`

func isIsolation(err error) bool {
	return stateOf(err) == stateBadText && strings.Contains(err.Error(), "pawl isolation")
}

// AppendTx implements [store.TxAppender]. The transaction must be one of the
// same database, of isolation READ COMMITTED; a stricter one does not see what
// died or was acked since it began, and is refused with [store.ErrInvalid]. What
// is appended is under savepoints: an error of AppendTx leaves the transaction as
// it was.
//
// While the transaction stays open, only appends of the same id or unique key, and
// changes of the topic's order, wait for it. An Append waits for two seconds and fails
// with [store.ErrUnavailable] then; a settlement that emits such a message is refused
// with that.
//
// Listeners in this process are not woken, because the messages are not committed yet;
// call [Store.Wake] after the commit, or rely on the next poll.
//
// A transaction of database/sql goes to the [store.TxAppender] of *sql.Tx, which
// [store.As] finds; it keeps the same promises.
func (s *Store) AppendTx(ctx context.Context, dbtx pgx.Tx, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	return s.appendIn(ctx, dbtx.Conn().PgConn(), batch)
}

// appendIn appends in the transaction that is open on c.
func (s *Store) appendIn(ctx context.Context, c *pgconn.PgConn,
	batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts, err := store.Admit(batch)
	if err != nil {
		return nil, err
	}
	ctx, done, err := s.enter(ctx, "append")
	if err != nil {
		return nil, err
	}
	defer done()
	in, err := s.inserting(ctx, batch, receipts)
	if err != nil {
		return nil, s.fail("append", err)
	}
	in.late = true
	var stored []store.Receipt
	defer func() { in.done(stored) }()
	err = s.insertTx(ctx, c, in)
	switch {
	case err == nil:
		in.answer(receipts)
		stored = receipts
		return receipts, nil
	case isRepeated(err):
		first := []store.Receipt{}
		err := s.savepoint(ctx, c, read(readBatch, func(r row) (err error) {
			if r.int2(0) == partAppend {
				first, err = outcomeOf(r)
			}
			return err
		}, in.batch))
		return first, s.fail("append", err)
	case mustGoOneByOne(err):
		receipts, err = s.appendTxOneByOne(ctx, c, batch, receipts, in)
	case isIsolation(err):
		return nil, &store.Error{
			Op: "append", Code: store.ErrInvalid, Err: errors.New("the transaction is stricter than READ COMMITTED"),
			Hint: "begin it with isolation READ COMMITTED",
		}
	}
	return receipts, s.fail("append", err)
}

// insertTx inserts under a savepoint, again where the data changed meanwhile.
func (s *Store) insertTx(ctx context.Context, c *pgconn.PgConn, in *inserting) error {
	checkDue := true
	for n := 1; ; n++ {
		var steps group
		if len(in.id) > 0 {
			steps = in.steps(s, checkDue)
		} else {
			steps = group{do(insertBatch, bytesValue(in.batch), int2Value(partAppend), bytesValue(in.outcome),
				s.skewValue())}
		}
		err := s.savepoint(ctx, c, steps...)
		switch {
		case err == nil && len(in.id) > 0:
			return in.check(s)
		case isDue(err) && checkDue:
			checkDue = false
			if err := s.promote(ctx); err != nil {
				return err
			}
		case cameBetween(err) && n < insertTries && ctx.Err() == nil:
		default:
			return err
		}
	}
}

// savepoint runs steps on the caller's connection, and takes them back if they
// fail. Statements have no names there: the session is not ours.
func (s *Store) savepoint(ctx context.Context, c *pgconn.PgConn, steps ...step) error {
	run := func(g group) error { return s.exchange(ctx, c, false, []group{g})[0] }
	err := run(append(append(group{do("SAVEPOINT pawl_append")}, steps...), do("RELEASE SAVEPOINT pawl_append")))
	if err != nil && isServer(err) {
		if back := run(group{do("ROLLBACK TO SAVEPOINT pawl_append"),
			do("RELEASE SAVEPOINT pawl_append")}); back != nil {
			return back
		}
	}
	return err
}

// appendTxOneByOne is appendOneByOne within the caller's transaction.
func (s *Store) appendTxOneByOne(ctx context.Context, c *pgconn.PgConn, batch store.Batch[pawl.Message],
	receipts []store.Receipt,
	in *inserting,
) (_ []store.Receipt, err error) {
	run := func(steps ...step) error { return s.exchange(ctx, c, false, []group{steps})[0] }
	if err := run(do("SAVEPOINT pawl_one_by_one")); err != nil {
		return nil, err
	}
	defer func() {
		if err == nil {
			err = run(do("RELEASE SAVEPOINT pawl_one_by_one"))
		} else if isServer(err) {
			err = errors.Join(err, run(do("ROLLBACK TO SAVEPOINT pawl_one_by_one"),
				do("RELEASE SAVEPOINT pawl_one_by_one")))
		}
	}()
	for i := range batch.Items {
		m := &batch.Items[i]
		if receipts[i].Err != nil {
			continue
		}
		one := &inserting{rowsOf: &rowsOf{}, late: true}
		one.add(i+1, s.topics.named(m.Topic), m, receipts[i].ID, m.ID != "")
		if err := s.savepoint(ctx, c, one.steps(s, false)...); err != nil {
			return nil, err
		}
		receipts[i].DuplicateOf = one.lost[i+1]
	}
	outcome := sqlstore.EncodeReceipts(receipts)
	return receipts, s.savepoint(ctx, c, do(insertBatch, bytesValue(in.batch), int2Value(partAppend), outcome,
		s.skewValue()))
}

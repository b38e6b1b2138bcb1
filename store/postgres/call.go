package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// step is one statement of a call. Names of tables in sql are written @msg.
type step struct {
	sql  string
	args [][]byte
	row  func(row) error // nil: no rows are expected
}

func do(sql string, args ...[]byte) step { return step{sql: sql, args: args} }

// read is a step whose rows go to each.
func read(sql string, each func(row) error, args ...[]byte) step {
	return step{sql: sql, args: args, row: each}
}

// set stores the first column of each row: that of the last one stays.
func set[T any](v *T, column func(row, int) T) func(row) error {
	return func(r row) error {
		*v = column(r, 0)
		return nil
	}
}

// add collects the first column of all rows.
func add[T any](all *[]T, column func(row, int) T) func(row) error {
	return func(r row) error {
		*all = append(*all, column(r, 0))
		return nil
	}
}

// note notes the first column of all rows.
func note[T comparable](seen map[T]bool, column func(row, int) T) func(row) error {
	return func(r row) error {
		seen[column(r, 0)] = true
		return nil
	}
}

// one stores what makeOne makes of the only row.
func one[T any](v *T, makeOne func(row) (T, error)) func(row) error {
	return func(r row) (err error) {
		*v, err = makeOne(r)
		return err
	}
}

// collect collects what makeOne makes of all rows.
func collect[T any](all *[]T, makeOne func(row) (T, error)) func(row) error {
	return func(r row) error {
		one, err := makeOne(r)
		*all = append(*all, one)
		return err
	}
}

// group is steps that are one transaction, unless they are within one that was
// begun before.
type group []step

// statement is an sql text with the schema put in, and its name on a connection.
type statement struct{ name, sql string }

func (s *core) statement(sql string) statement {
	if st, ok := s.statements.Load(sql); ok {
		return st.(statement)
	}
	st := statement{
		name: "pawl_" + strconv.FormatInt(s.statementCount.Add(1), 10),
		sql:  strings.ReplaceAll(sql, "@", s.cfg.Schema+"."),
	}
	got, _ := s.statements.LoadOrStore(sql, st)
	return got.(statement)
}

var formats = []int16{1}

// send sends groups at once and reads their results; an error for each. Where
// the connection breaks, it is the error of that group and all that follow.
func (s *core) send(ctx context.Context, c *pgconn.PgConn, groups ...group) []error {
	errs := s.exchange(ctx, c, !s.cfg.PollOnly, groups)
	for _, err := range errs {
		if state := stateOf(err); state == stateStalePlan || state == "42P01" || state == "26000" {
			s.retire(c) // its statements are of a schema that is gone
			break
		}
	}
	return errs
}

// exchange is send, with named statements or without.
func (s *core) exchange(ctx context.Context, c *pgconn.PgConn, named bool, groups []group) []error {
	errs := make([]error, len(groups))
	known, asked := preparedOn(c), map[string]bool{}
	p := c.StartPipeline(ctx)
	for _, g := range groups {
		for _, st := range g {
			q := s.statement(st.sql)
			if !named {
				p.SendQueryParams(q.sql, st.args, nil, formats, formats)
				continue
			}
			if !known[q.name] && !asked[q.name] {
				asked[q.name] = true
				p.SendPrepare(q.name, q.sql, nil)
			}
			p.SendQueryPrepared(q.name, st.args, formats, formats)
		}
		p.SendPipelineSync()
	}
	broken, from := p.Flush(), 0
	if broken == nil {
		from, broken = s.receive(p, groups, errs, known)
	}
	if err := p.Close(); err != nil && broken == nil && !isServer(err) {
		broken = err
	}
	for i := from; i < len(errs); i++ {
		if errs[i] == nil {
			errs[i] = broken
		}
	}
	return errs
}

// retire closes a connection; the pool makes another.
func (s *core) retire(c *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(s.ctx, pingLimit)
	defer cancel()
	_ = c.Close(ctx)
}

// receive reads the answers of the server to groups. The error is that of the connection;
// refusals of the server go to errs.
func (s *core) receive(p *pgconn.Pipeline, groups []group, errs []error, known prepared) (g int, err error) {
	n := 0
	for g < len(groups) {
		result, err := p.GetResults()
		if err != nil {
			if !isServer(err) {
				if errs[g] != nil { // FATAL: the server gave a reason for closing the connection
					return g, errs[g]
				}
				return g, err
			}
			if errs[g] == nil {
				errs[g] = err
			}
			continue
		}
		switch r := result.(type) {
		case nil:
			return g, errors.New("conn closed: the server's answer is incomplete")
		case *pgconn.PipelineSync:
			g, n = g+1, 0
		case *pgconn.StatementDescription:
			known[s.statement(groups[g][n].sql).name] = true
		case *pgconn.ResultReader:
			err := rows(r, groups[g][n])
			if _, closing := r.Close(); closing != nil {
				err = closing
			}
			if err != nil && errs[g] == nil {
				errs[g] = err
			}
			n++
		}
	}
	return g, nil
}

func rows(r *pgconn.ResultReader, st step) error {
	for r.NextRow() {
		if st.row == nil {
			continue
		}
		if err := st.row(r.Values()); err != nil {
			return err
		}
	}
	return nil
}

func isServer(err error) bool {
	_, ok := errors.AsType[*pgconn.PgError](err)
	return ok
}

// call runs steps as one transaction on a connection of pool. It tries again if the server asks
// for that, or if nothing can have been sent.
func (s *core) call(ctx context.Context, pool *pgxpool.Pool, steps ...step) error {
	return s.callAfresh(ctx, pool, func() {}, steps...)
}

// callAfresh is call; begin is called before each try, to drop what an earlier one
// read.
func (s *core) callAfresh(ctx context.Context, pool *pgxpool.Pool, begin func(), steps ...step) error {
	return s.again(ctx, func() error {
		begin()
		c, err := acquire(ctx, pool)
		if err != nil {
			return err
		}
		defer c.Release()
		return s.send(ctx, c.Conn().PgConn(), s.hot(steps))[0]
	})
}

// hot puts the settings in front of a transaction that the session does not keep.
func (s *core) hot(steps group) group {
	if !s.cfg.PollOnly {
		return steps
	}
	return append(group{do(hotSettings, textValue(millis(lockTimeout)), textValue(millis(s.cfg.CallTimeout)))},
		steps...)
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// again repeats a transaction that the server rolled back: serialization, a deadlock,
// data that changed meanwhile; and one that was never sent.
func (s *core) again(ctx context.Context, try func() error) error {
	for n := 0; ; n++ {
		err := try()
		if err == nil || n == 5 || ctx.Err() != nil || !repeatable(err) {
			return timedOut(ctx, err)
		}
		select {
		case <-ctx.Done():
			return timedOut(ctx, err)
		case <-time.After(time.Duration(n*n) * 5 * time.Millisecond):
		}
	}
}

func repeatable(err error) bool {
	switch stateOf(err) {
	case stateSerialize, stateDeadlock, stateStalePlan, "26000":
		return true
	}
	return errors.Is(err, errAnew) || !isServer(err) && pgconn.SafeToRetry(err)
}

// timedOut is the error of a call that was ended by the store's own timeout.
func timedOut(ctx context.Context, err error) error {
	if err != nil && context.Cause(ctx) == errTimeout && !errors.Is(err, errTimeout) {
		return fmt.Errorf("%w: %w", errTimeout, err)
	}
	return err
}

// tx is a transaction of several round trips, off the hot path.
type tx struct {
	s     *core
	c     *pgconn.PgConn
	begin group // goes with the first steps
}

// within runs fn in a transaction; fn may be called more than once.
func (s *core) within(ctx context.Context, pool *pgxpool.Pool, settings []string, fn func(*tx) error) error {
	return s.again(ctx, func() error {
		c, err := acquire(ctx, pool)
		if err != nil {
			return err
		}
		defer c.Release()
		t := &tx{s: s, c: c.Conn().PgConn(), begin: group{do("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")}}
		for _, sql := range settings {
			t.begin = append(t.begin, do(sql))
		}
		if settings == nil {
			t.begin = append(t.begin, s.hot(nil)...)
		}
		if err = fn(t); err == nil && t.begin == nil {
			err = t.run(ctx, do("COMMIT"))
		}
		if err != nil && !t.c.IsClosed() && t.c.TxStatus() != 'I' {
			undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), pingLimit)
			defer cancel()
			if back := s.send(undo, t.c, group{do("ROLLBACK")})[0]; back != nil {
				_ = t.c.Close(undo)
			}
		}
		return err
	})
}

// run runs steps in one round trip.
func (t *tx) run(ctx context.Context, steps ...step) error {
	all := append(t.begin, steps...)
	t.begin = nil
	return t.s.send(ctx, t.c, all)[0]
}

// query collects what makeOne makes of the rows of a statement.
func query[T any](ctx context.Context, t *tx, makeOne func(row) (T, error), sql string, args ...[]byte) (all []T,
	err error) {
	err = t.run(ctx, read(sql, collect(&all, makeOne), args...))
	return all, err
}

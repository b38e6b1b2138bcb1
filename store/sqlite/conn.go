package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"

	driversqlite "modernc.org/sqlite"
)

// session runs statements: the writer's own connection, or a caller's
// transaction. Statements are constants; each is prepared once per session.
type session interface {
	// exec returns how many rows changed.
	exec(sql string, args ...any) (int64, error)
	// query calls scan for every row. The row is good until scan returns.
	query(sql string, scan func(row) error, args ...any) error
}

// errEnough, returned by scan, ends a query early.
var errEnough = errors.New("enough")

// row is the columns of a row as the driver gives them.
type row []driver.Value

func (r row) int(i int) int64 {
	n, _ := r[i].(int64) // NULL is 0
	return n
}

func (r row) bytes(i int) []byte {
	b, _ := r[i].([]byte) // NULL is nil
	return b
}

func (r row) text(i int) string {
	switch v := r[i].(type) {
	case string:
		return v
	case []byte:
		return string(v)
	default:
		return ""
	}
}

// blob is b as an argument; nil is NULL.
func blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

// first returns the columns of the first row as numbers; ok is false if there
// is no row.
func first(db session, query string, args ...any) (cols [5]int64, ok bool, err error) {
	err = db.query(query, func(r row) error {
		if !ok {
			for i := range min(len(r), len(cols)) {
				cols[i] = r.int(i)
			}
		}
		ok = true
		return nil
	}, args...)
	return cols, ok, err
}

// collect returns what makeOne makes of the rows.
func collect[T any](db session, makeOne func(row) (T, error), query string, args ...any) (all []T, err error) {
	err = db.query(query, func(r row) error {
		one, err := makeOne(r)
		all = append(all, one)
		return err
	}, args...)
	return all, err
}

// numbers returns the first column of all rows.
func numbers(db session, query string, args ...any) ([]int64, error) {
	return collect(db, func(r row) (int64, error) { return r.int(0), nil }, query, args...)
}

// dsn is the driver's name of the file. SQLite reads a URI, so that no
// character of the path means anything else.
func dsn(path, params string) string {
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: params}
	if !filepath.IsAbs(path) {
		u = url.URL{Scheme: "file", Opaque: (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath(), RawQuery: params}
	}
	return u.String()
}

// conn is one connection and its prepared statements. It is used by one
// goroutine at a time. The driver's connection is used directly: package sql
// would cost the writer a fifth of its rate.
type conn struct {
	c     driver.Conn
	stmts map[string]driver.Stmt
	args  []driver.NamedValue
	dest  []driver.Value
}

func connect(ctx context.Context, name string) (*conn, error) {
	connector, err := driversqlite.NewConnector(name)
	if err != nil {
		return nil, err
	}
	c, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{c: c, stmts: map[string]driver.Stmt{}}, nil
}

func (c *conn) close() error {
	for _, s := range c.stmts {
		_ = s.Close()
	}
	return c.c.Close()
}

// stmt prepares a statement when it is first used.
func (c *conn) stmt(query string) (driver.Stmt, error) {
	if s := c.stmts[query]; s != nil {
		return s, nil
	}
	s, err := c.c.Prepare(query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

// named puts args into the form of the driver.
func (c *conn) named(args []any) []driver.NamedValue {
	for len(c.args) < len(args) {
		c.args = append(c.args, driver.NamedValue{Ordinal: len(c.args) + 1})
	}
	for i, a := range args {
		c.args[i].Value = a
	}
	return c.args[:len(args)]
}

func (c *conn) exec(query string, args ...any) (int64, error) {
	s, err := c.stmt(query)
	if err != nil {
		return 0, err
	}
	// No context: with one, the driver starts a goroutine for every statement.
	result, err := s.(driver.StmtExecContext).ExecContext(context.Background(), c.named(args))
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (c *conn) query(query string, scan func(row) error, args ...any) error {
	s, err := c.stmt(query)
	if err != nil {
		return err
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(context.Background(), c.named(args))
	if err != nil {
		return err
	}
	// scan may query as well: then it needs columns of its own.
	dest := c.dest
	c.dest = nil
	if n := len(rows.Columns()); cap(dest) < n {
		dest = make([]driver.Value, n)
	} else {
		dest = dest[:n]
	}
	for err == nil {
		if err = rows.Next(dest); err == nil {
			err = scan(dest)
		}
	}
	c.dest = dest
	if err == io.EOF || err == errEnough {
		err = nil
	}
	return errors.Join(err, rows.Close())
}

// script runs several statements without arguments.
func (c *conn) script(text string) error {
	_, err := c.c.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	return err
}

// txSession is a transaction of package sql: a reader's, or a caller's.
type txSession struct {
	ctx     context.Context
	between context.Context // if not nil: its end is noticed before a statement, and interrupts none
	tx      *sql.Tx
	stmts   map[string]*sql.Stmt
}

func newTxSession(ctx context.Context, tx *sql.Tx) *txSession {
	return &txSession{ctx: ctx, tx: tx, stmts: map[string]*sql.Stmt{}}
}

func (t *txSession) close() {
	for _, s := range t.stmts {
		_ = s.Close()
	}
}

func (t *txSession) stmt(query string) (*sql.Stmt, error) {
	if t.between != nil && t.between.Err() != nil {
		return nil, t.between.Err()
	}
	if s := t.stmts[query]; s != nil {
		return s, nil
	}
	s, err := t.tx.PrepareContext(t.ctx, query)
	if err != nil {
		return nil, err
	}
	t.stmts[query] = s
	return s, nil
}

func (t *txSession) exec(query string, args ...any) (int64, error) {
	s, err := t.stmt(query) //nolint:sqlclosecheck // close closes all of them
	if err != nil {
		return 0, err
	}
	result, err := s.ExecContext(t.ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (t *txSession) query(query string, scan func(row) error, args ...any) error {
	s, err := t.stmt(query) //nolint:sqlclosecheck // close closes all of them
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(t.ctx, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	dest, ptrs := make(row, len(names)), make([]any, len(names))
	for i := range dest {
		ptrs[i] = (*any)(&dest[i])
	}
	for rows.Next() {
		if err := rows.Scan(ptrs...); err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		if err := scan(dest); err == errEnough {
			return nil
		} else if err != nil {
			return err
		}
	}
	return rows.Err()
}

package postgres

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The hot statements are written so that there is one good plan, whatever the
// tables hold: an index scan per element of an array. A planner that last saw an
// empty table would choose another one, and keep it while the table grows; so
// it gets no choice. Cold statements (look-ups, figures) have the usual planner,
// in transactions of their own.
const sessionSettings = `
	SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
	SET enable_memoize = off; SET plan_cache_mode = force_generic_plan; SET jit = off; SET client_min_messages = warning;
	SET default_transaction_isolation = 'read committed'; SET default_transaction_read_only = off;
	SET idle_in_transaction_session_timeout = '60s';`

// hotSettings are the same for one transaction, for sessions that are shared.
const hotSettings = `SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
	set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('enable_memoize', 'off', true), set_config('jit', 'off', true),
	set_config('lock_timeout', $1::text, true), set_config('statement_timeout', $2::text, true)`

// undoSettings undo them for one transaction.
const undoSettings = `SELECT set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'on', true),
	set_config('enable_hashjoin', 'on', true), set_config('enable_mergejoin', 'on', true), set_config('plan_cache_mode', 'auto', true)`

// Bounds of waits in the server.
const (
	lockTimeout  = 2 * time.Second // for a lock; nothing of this package holds one that long
	connectLimit = 10 * time.Second
	pingLimit    = 3 * time.Second
)

// openPool makes a pool that connects when it is asked to.
func (s *core) openPool(base *pgx.ConnConfig, conns int) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig("")
	if err != nil {
		return nil, fmt.Errorf("make a pool: %w", err)
	}
	c.ConnConfig = base.Copy()
	c.MaxConns = int32(conns)
	c.MinConns = 0
	c.MaxConnIdleTime = 5 * time.Minute
	c.PingTimeout = pingLimit
	c.AfterConnect = s.afterConnect
	return pgxpool.NewWithConfig(s.ctx, c)
}

// connConfig is the common configuration of all connections.
func (s *core) connConfig() (*pgx.ConnConfig, error) {
	base, err := pgx.ParseConfig(s.cfg.URL)
	if err != nil {
		return nil, err
	}
	if base.ConnectTimeout == 0 || base.ConnectTimeout > connectLimit {
		base.ConnectTimeout = connectLimit
	}
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3,
	}}
	base.DialFunc = dialer.DialContext
	if base.RuntimeParams["application_name"] == "" && !s.cfg.PollOnly {
		base.RuntimeParams["application_name"] = "pawl"
	}
	if s.cfg.PollOnly {
		base.DefaultQueryExecMode = pgx.QueryExecModeExec
	}
	return base, nil
}

// ownConn is a connection of no pool, and the function that closes it.
func (s *core) ownConn(ctx context.Context) (conn *pgx.Conn, done func(), err error) {
	base, err := s.connConfig()
	if err == nil {
		conn, err = pgx.ConnectConfig(ctx, base)
	}
	return conn, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}, err
}

func (s *core) afterConnect(ctx context.Context, c *pgx.Conn) error {
	if s.cfg.PollOnly {
		return nil
	}
	limits := fmt.Sprintf("SET lock_timeout = %d; SET statement_timeout = %d;",
		lockTimeout.Milliseconds(), s.cfg.CallTimeout.Milliseconds())
	_, err := c.PgConn().Exec(ctx, sessionSettings+limits).ReadAll()
	return err
}

// bounded is ctx with the store's own bound, whose cause says so.
func (s *core) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.cfg.CallTimeout, errTimeout)
}

// acquire takes a connection from a pool. If none is free in time, the error says so.
func acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	c, err := pool.Acquire(ctx)
	if err != nil && ctx.Err() != nil && context.Cause(ctx) == errTimeout {
		err = fmt.Errorf("wait for a connection: %w", errTimeout)
	}
	return c, err
}

// prepared is the set of statements that are prepared on a connection.
type prepared map[string]bool

func preparedOn(c *pgconn.PgConn) prepared {
	data := c.CustomData()
	p, ok := data["pawl"].(prepared)
	if !ok {
		p = prepared{}
		data["pawl"] = p
	}
	return p
}

// coldSettings give a transaction the planner's full choice, coldSnapshot to several
// statements that must agree.
var (
	coldSettings = []string{undoSettings}
	coldSnapshot = []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", undoSettings}
)

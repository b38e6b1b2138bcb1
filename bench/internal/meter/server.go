package meter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Server watches a PostgreSQL server from a database of the bench's own, so
// that its statements count for no arm.
//
// WAL is counted in bytes of records without full-page images: how many images
// a run writes depends on when the last checkpoint was, not on the run. The
// method: a temporary physical replication slot keeps the segments, the
// positions before and after are noted, and pg_walinspect's pg_get_wal_stats
// sums record_size (which excludes fpi_size) over what lies between. It counts
// everything the server wrote in that time, vacuum included; nothing else may
// use the server meanwhile.
//
// Dead tuples are those produced: tup_updated + tup_deleted of the arm's
// database. What vacuum has removed in between still counts.
type Server struct {
	conn       *pgx.Conn
	database   string // the arm's
	postmaster int    // 0: not on this machine, or not visible

	lsn0, lsn1 string
	before     counters
}

type counters struct{ commits, dead int64 }

// OpenServer connects to the meter's own database at dsn and watches database.
func OpenServer(ctx context.Context, dsn, database string) (*Server, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("connect the meter: %w", err)
	}
	s := &Server{conn: conn, database: database}
	var backend int
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		return nil, errors.Join(fmt.Errorf("ask for the meter's session: %w", err), conn.Close(ctx))
	}
	if p, err := stat(backend); err == nil && strings.HasPrefix(p.Comm, "postgres") {
		s.postmaster = p.PPID
	}
	return s, nil
}

// Checkpoint brings the server to a comparable state before a run.
func (s *Server) Checkpoint(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, `CHECKPOINT`)
	return wrap("checkpoint", err)
}

// Close ends the meter's session, and with it the replication slot.
func (s *Server) Close(ctx context.Context) error { return s.conn.Close(ctx) }

func (s *Server) begin(ctx context.Context) (err error) {
	if s.before, err = s.quiet(ctx); err != nil {
		return err
	}
	err = s.conn.QueryRow(ctx, `
		SELECT pg_current_wal_flush_lsn()::text
		FROM pg_create_physical_replication_slot('pawlbench_' || pg_backend_pid(), true, true)`).Scan(&s.lsn0)
	return wrap("note the WAL position", err)
}

func (s *Server) end(ctx context.Context) error {
	return wrap("note the WAL position", s.conn.QueryRow(ctx, `SELECT pg_current_wal_flush_lsn()::text`).Scan(&s.lsn1))
}

func (s *Server) settle(ctx context.Context, c *Costs, n int) error {
	after, err := s.quiet(ctx)
	if err != nil {
		return err
	}
	var wal int64
	if s.lsn0 != s.lsn1 {
		err = s.conn.QueryRow(ctx,
			`SELECT sum(record_size)::bigint FROM pg_get_wal_stats($1::text::pg_lsn, $2::text::pg_lsn, false)`,
			s.lsn0, s.lsn1).Scan(&wal)
	}
	if err != nil {
		return wrap("sum the WAL", err)
	}
	c.Commits, c.Dead = PerJob(float64(after.commits-s.before.commits), n), PerJob(float64(after.dead-s.before.dead), n)
	c.WAL = PerJob(float64(wal), n)
	_, err = s.conn.Exec(ctx, `SELECT pg_drop_replication_slot('pawlbench_' || pg_backend_pid())`)
	return wrap("drop the replication slot", err)
}

// quiet waits until no session is left in the arm's database (a session adds
// what it did to the counters when it ends, at the latest) and reads them.
func (s *Server) quiet(ctx context.Context) (c counters, err error) {
	const query = `SELECT xact_commit, tup_updated + tup_deleted,
		(SELECT count(*) FROM pg_stat_activity a WHERE a.datname = d.datname AND a.backend_type = 'client backend')
		FROM pg_stat_database d WHERE datname = $1`
	for {
		var sessions int
		if err := s.conn.QueryRow(ctx, query, s.database).Scan(&c.commits, &c.dead, &sessions); err != nil {
			return c, wrap("read the counters", err)
		}
		if sessions == 0 {
			return c, nil
		}
		select {
		case <-ctx.Done():
			return c, fmt.Errorf("wait for %d sessions of %s to end: %w", sessions, s.database, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

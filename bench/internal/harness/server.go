package harness

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
)

// meterDatabase holds the extension that the meter reads the WAL with, so that
// the meter's sessions and statements count for no arm.
const meterDatabase = "pawlbench_meter"

// Server is the PostgreSQL server of a run, as one of its users sees it.
type Server struct {
	At *url.URL
}

// Address returns the URL of another database on the same server.
func (s Server) Address(database string) string {
	u := *s.At
	u.Path = "/" + database
	return u.String()
}

// Create makes an empty database, dropping what an interrupted run left.
func (s Server) Create(ctx context.Context, database string, extensions ...string) error {
	if err := s.Drop(ctx, database); err != nil {
		return err
	}
	if err := run(ctx, s.At.String(), `CREATE DATABASE `+quote(database)); err != nil {
		return fmt.Errorf("create database %s: %w", database, err)
	}
	for _, e := range extensions {
		if err := run(ctx, s.Address(database), `CREATE EXTENSION `+quote(e)); err != nil {
			return fmt.Errorf("create extension %s: %w", e, err)
		}
	}
	return nil
}

// Fresh makes an empty database of a name of its own, and returns its URL.
func Fresh(ctx context.Context, at string) (address string, drop func() error, err error) {
	u, err := url.Parse(at)
	if err != nil || at == "" {
		return "", nil, errors.New("no PostgreSQL server: PAWL_TEST_POSTGRES is not a postgres:// URL")
	}
	s, name := Server{u}, "bench_"+strings.ReplaceAll(pawl.NewID(), "-", "")
	return s.Address(name), func() error { return s.Drop(context.WithoutCancel(ctx), name) }, s.Create(ctx, name)
}

// Drop drops a database. Only a superuser may end a worker of autovacuum that is
// at it, so other users wait.
func (s Server) Drop(ctx context.Context, database string) error {
	for attempt := 0; ; attempt++ {
		err := run(ctx, s.At.String(), `DROP DATABASE IF EXISTS `+quote(database)+` WITH (FORCE)`)
		if refused, ok := errors.AsType[*pgconn.PgError](err); attempt < 60 && ok && refused.Code == "42501" {
			time.Sleep(time.Second)
			continue
		}
		if err != nil {
			return fmt.Errorf("drop database %s: %w", database, err)
		}
		return nil
	}
}

// facts are the settings of the server that decide what figures mean.
func (s Server) facts(ctx context.Context) (map[string]string, error) {
	conn, err := pgx.Connect(ctx, s.At.String())
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	facts := map[string]string{}
	for _, name := range []string{
		"server_version", "fsync", "synchronous_commit", "full_page_writes", "shared_buffers", "max_wal_size",
		"autovacuum_naptime", "wal_level", "max_connections",
	} {
		var v string
		if err := conn.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&v); err != nil {
			return nil, errors.Join(fmt.Errorf("read setting %s: %w", name, err), conn.Close(ctx))
		}
		facts[name] = v
	}
	return facts, conn.Close(ctx)
}

// run executes one statement in a session of its own.
func run(ctx context.Context, dsn, statement string) error {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	return errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

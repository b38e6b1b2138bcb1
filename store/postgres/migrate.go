package postgres

import (
	"context"
	"embed"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// migrator brings the schema up to date.
type migrator struct {
	*core
}

//go:embed migrations/*.sql
var migrationFiles embed.FS

var steps = sqlstore.Embedded(migrationFiles)

const (
	hasSchema        = `SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1), to_regclass($1 || '.migration') IS NOT NULL`
	createMigrations = `CREATE TABLE IF NOT EXISTS @migration (version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL)`
	selectMigrations = `SELECT version, name, applied_at FROM @migration ORDER BY version`
	insertMigration  = `INSERT INTO @migration VALUES ($1, $2, now()) RETURNING applied_at`
	deleteMigration  = `DELETE FROM @migration WHERE version = $1`
	lockMigrations   = `SELECT pg_advisory_xact_lock(hashtextextended('pawl migrate ' || $1, 0))`
)

func (s *migrator) named(sql string) string { return strings.ReplaceAll(sql, "@", s.cfg.Schema+".") }

// querier has the methods that a pool and a transaction have in common.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// applied returns the migrations that the schema has seen.
func (s *migrator) applied(ctx context.Context, q querier) ([]store.Migration, error) {
	var schema, table bool
	if err := q.QueryRow(ctx, hasSchema, s.cfg.Schema).Scan(&schema, &table); err != nil || !table {
		return nil, err
	}
	rows, err := q.Query(ctx, s.named(selectMigrations))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(r pgx.CollectableRow) (m store.Migration, err error) {
		err = r.Scan(&m.Version, &m.Name, &m.AppliedAt)
		return m, err
	})
}

// checkSchema returns an error if this program cannot work with the schema.
func (s *migrator) checkSchema(ctx context.Context) error {
	have, err := s.applied(ctx, s.front)
	if err != nil {
		return s.fail("open postgres", err)
	}
	return sqlstore.CheckVersion("open postgres, schema "+s.cfg.Schema, steps(), have)
}

// Migrations implements [store.Migrator].
func (s *migrator) Migrations(ctx context.Context) (all []store.Migration, err error) {
	err = s.guard(ctx, "migrations", func(ctx context.Context) error {
		have, err := s.applied(ctx, s.front)
		all = sqlstore.Status(steps(), have)
		return err
	})
	return all, err
}

// MigrateUp implements [store.Migrator].
func (s *migrator) MigrateUp(ctx context.Context) ([]store.Migration, error) {
	return s.migrate(ctx, "migrate up", sqlstore.Up)
}

// MigrateDown implements [store.Migrator].
func (s *migrator) MigrateDown(ctx context.Context, to int) ([]store.Migration, error) {
	defer s.topics.forget()
	return s.migrate(ctx, "migrate down", sqlstore.Down(to))
}

// migrate runs one step a transaction, until next has none.
func (s *migrator) migrate(ctx context.Context, op string, next sqlstore.Next) (done []store.Migration, err error) {
	err = s.guard(ctx, op, func(ctx context.Context) error {
		for more := true; more; {
			err := pgx.BeginFunc(ctx, s.front, func(tx pgx.Tx) error {
				have, err := s.lockMigrations(ctx, tx)
				if err == nil {
					err = sqlstore.CheckKnown(op, steps(), have)
				}
				if err != nil {
					return err
				}
				var step sqlstore.Step
				var sql string
				if step, sql, more = next(steps(), have); !more {
					return nil
				}
				m, err := s.migrateStep(ctx, tx, step, sql)
				if err == nil {
					done = append(done, m)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return done, err
}

// lockMigrations waits for other migrations of this schema, and returns the applied ones.
func (s *migrator) lockMigrations(ctx context.Context, tx pgx.Tx) ([]store.Migration, error) {
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = 0"); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, lockMigrations, s.cfg.Schema); err != nil {
		return nil, err
	}
	var schema, table bool
	if err := tx.QueryRow(ctx, hasSchema, s.cfg.Schema).Scan(&schema, &table); err != nil {
		return nil, err
	}
	if !schema { // a user without the right to create one may use one that is there
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+s.cfg.Schema); err != nil {
			return nil, err
		}
	}
	if !table {
		if _, err := tx.Exec(ctx, s.named(createMigrations)); err != nil {
			return nil, err
		}
	}
	return s.applied(ctx, tx)
}

func (s *migrator) migrateStep(ctx context.Context, tx pgx.Tx, step sqlstore.Step,
	sql string) (store.Migration, error) {
	m := store.Migration{Version: step.Version, Name: step.Name}
	script := s.named(sql)
	switch {
	case step.Version == 1 && sql == step.Down:
		script = s.named(dropOutbox) + ";" + script
	case step.Version == 1:
		script += s.sendScript()
	}
	if _, err := tx.Conn().PgConn().Exec(ctx, script).ReadAll(); err != nil {
		return m, err
	}
	if sql == step.Down {
		_, err := tx.Exec(ctx, s.named(deleteMigration), step.Version)
		return m, err
	}
	err := tx.QueryRow(ctx, s.named(insertMigration), step.Version, step.Name).Scan(&m.AppliedAt)
	return m, err
}

package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// outbox installs what applications append with, by SQL.
type outbox struct {
	*core
	migrator *migrator
	registry *registry
}

//go:embed outbox.sql
var outboxSQL string

const (
	// outboxStage ends the name of a topic that changes go to.
	outboxStage = "index"
	hasOutbox   = `SELECT to_regclass('pawl_outbox') IS NOT NULL`
	// A user called like the schema of the store has that first in its search path.
	besideTables = `SELECT set_config('search_path', quote_ident(x.name), true) FROM unnest(current_schemas(false)) WITH ORDINALITY x(name, n)
		WHERE x.name <> $1 ORDER BY x.n LIMIT 1`
	// Views of the application's schema that read the store's tables would keep them from being dropped.
	dropOutbox = `DROP VIEW IF EXISTS pawl_outbox, pawl_outbox_status, dead_letter_outbox, projection_status;
		DROP FUNCTION IF EXISTS @outbox_insert(), @outbox_class(text), @outbox_topic(text),
			@outbox_text(bytea), @outbox_number(text), @outbox_about(text)`
)

// InstallOutbox implements Outbox of package project. The views are made in the first schema of the search
// path that is not the store's.
func (s *outbox) InstallOutbox(ctx context.Context) (grants []string, err error) {
	err = s.guard(ctx, "install the outbox", func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.front, func(tx pgx.Tx) error {
			if _, err := s.migrator.lockMigrations(ctx, tx); err != nil {
				return err
			}
			var schema string
			if err := tx.QueryRow(ctx, besideTables, s.cfg.Schema).Scan(&schema); err != nil {
				return fmt.Errorf("the search path names no schema of the application: %w", err)
			}
			if _, err := tx.Conn().PgConn().Exec(ctx, s.outboxScript()).ReadAll(); err != nil {
				return err
			}
			grants = []string{
				fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO ROLE;", schema),
				fmt.Sprintf("GRANT INSERT ON %s.pawl_outbox TO ROLE;", schema),
			}
			return nil
		})
	})
	return grants, err
}

// outboxScript makes the outbox of this store.
func (s *outbox) outboxScript() string {
	rank := sqlstore.Rank(sinceMicros, "0", "t.ageing")
	return s.migrator.named(strings.NewReplacer("{rank}", rank, "{id}", newID).Replace(outboxSQL))
}

// OutboxInstalled implements Outbox of package project.
func (s *outbox) OutboxInstalled(ctx context.Context) (there bool, err error) {
	err = s.guard(ctx, "look for the outbox", func(ctx context.Context) error {
		return s.front.QueryRow(ctx, hasOutbox).Scan(&there)
	})
	return there, err
}

// OutboxTopic implements Outbox of package project.
func (s *outbox) OutboxTopic(ctx context.Context, projection string) error {
	return s.guard(ctx, "make the topic of the outbox", func(ctx context.Context) error {
		topic := projection + "." + outboxStage
		if err := s.registry.create(ctx, topic, false, false); err != nil {
			return err
		}
		return s.registry.ensure(ctx, map[place]bool{{topic: topic}: true})
	})
}

// Dialect implements Rows of package project.
func (s *outbox) Dialect() string { return "postgres" }

// Rows implements Rows of package project.
func (s *outbox) Rows(ctx context.Context, each func(row []*string) error, query string, args ...any) error {
	return s.guard(ctx, "query", func(ctx context.Context) error {
		return pgx.BeginTxFunc(ctx, s.front, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, undoSettings); err != nil {
				return err
			}
			// The simple protocol gives all columns as text, and keeps no plan of a query that is seldom asked.
			rows, err := tx.Query(ctx, query, append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				row := make([]*string, len(rows.RawValues()))
				for i, v := range rows.RawValues() {
					if v != nil {
						row[i] = new(string(v))
					}
				}
				if err := each(row); err != nil {
					return err
				}
			}
			return rows.Err()
		})
	})
}

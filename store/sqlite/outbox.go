package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"strings"

	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

//go:embed outbox.sql
var outboxScript string

const (
	hasOutbox  = `SELECT count(*) FROM sqlite_schema WHERE name = 'pawl_outbox'`
	dropOutbox = `DROP VIEW IF EXISTS pawl_outbox; DROP VIEW IF EXISTS pawl_outbox_status; DROP VIEW IF EXISTS dead_letter_outbox;
		DROP VIEW IF EXISTS projection_status`
)

// InstallOutbox implements Outbox of package project. SQLite has no users to grant anything to.
func (s *migrator) InstallOutbox(ctx context.Context) (grants []string, err error) {
	return nil, s.write(ctx, &call{op: "install the outbox", direct: func(w *writer) error {
		if err := w.conn.script("BEGIN IMMEDIATE"); err != nil {
			return err
		}
		err := w.conn.script(strings.Replace(outboxScript, "{rank}", sqlstore.Rank("n.now", "0", "t.ageing"), 1))
		if err == nil {
			err = w.conn.script("COMMIT")
		}
		if err != nil {
			_ = w.conn.script("ROLLBACK") // it may have been taken back already
		}
		return err
	}})
}

// OutboxInstalled implements Outbox of package project.
func (s *migrator) OutboxInstalled(ctx context.Context) (there bool, err error) {
	err = s.read(ctx, "look for the outbox", func(k *work) error {
		cols, _, err := first(k.db, hasOutbox)
		there = cols[0] > 0
		return err
	})
	return there, err
}

// OutboxTopic implements Outbox of package project. There is nothing to do: an insert makes it, and there is one writer
// at a time.
func (s *migrator) OutboxTopic(context.Context, string) error { return nil }

// Dialect implements Rows of package project.
func (s *migrator) Dialect() string { return "sqlite" }

// Rows implements Rows of package project.
func (s *migrator) Rows(ctx context.Context, each func(row []*string) error, query string, args ...any) error {
	if err := s.usable(ctx, "query"); err != nil {
		return err
	}
	return s.readError(ctx, "query", s.rows(ctx, each, query, args))
}

func (s *migrator) rows(ctx context.Context, each func(row []*string) error, query string, args []any) error {
	rows, err := s.readers.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	texts, dest := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range texts {
		dest[i] = &texts[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		row := make([]*string, len(texts))
		for i := range texts {
			if texts[i].Valid {
				row[i] = &texts[i].String
			}
		}
		if err := each(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

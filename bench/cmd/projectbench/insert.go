package main

import (
	"context"
	"database/sql"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/rounds"
	"github.com/pawl-dev/pawl/outbox"
)

// inserts compares a transaction that inserts one change with one that inserts the same document into a plain table.
func inserts(ctx context.Context, s *settings, name string) error {
	d, err := newDatabase(ctx, s, name)
	if err != nil {
		return err
	}
	defer d.close()
	if _, err := d.app.ExecContext(ctx, "CREATE TABLE plain (id text, version bigint, doc text)"); err != nil {
		return err
	}
	d.app.SetMaxOpenConns(1) // one after the other
	count, n := max(s.rows/50, 1), 0
	arm := func(title string, do func(tx *sql.Tx, n int) error) rounds.Arm {
		return rounds.Arm{Name: title, Measure: func(ctx context.Context) (float64, error) {
			began := time.Now()
			for range count {
				n++
				if err := d.inTx(ctx, func(tx *sql.Tx) error { return do(tx, n) }); err != nil {
					return 0, err
				}
			}
			return time.Since(began).Seconds() * 1e6 / float64(count), nil
		}}
	}
	took, err := rounds.Measure(ctx, name, "µs a transaction", s.rounds, []rounds.Arm{
		arm("plain INSERT", func(tx *sql.Tx, n int) error {
			const insert = "INSERT INTO plain (id, version, doc) VALUES ($1, $2, $3)"
			_, err := tx.ExecContext(ctx, insert, id(n), 1, document(n))
			return err
		}),
		arm("outbox.Insert", func(tx *sql.Tx, n int) error { return outbox.Insert(ctx, tx, change(n)) }),
	})
	took.Compare(name, "outbox.Insert", "plain INSERT")
	return err
}

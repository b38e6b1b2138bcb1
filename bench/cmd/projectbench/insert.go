package main

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/meter"
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
	arms := []struct {
		name string
		do   func(tx *sql.Tx, n int) error
	}{
		{"plain INSERT", func(tx *sql.Tx, n int) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO plain (id, version, doc) VALUES ($1, $2, $3)", id(n), 1,
				document(n))
			return err
		}},
		{"outbox.Insert", func(tx *sql.Tx, n int) error {
			return outbox.Insert(ctx, tx, outbox.Change{Projection: projection, DocID: id(n), Version: 1,
				Doc: document(n)})
		}},
	}
	var ratios []float64
	count := max(s.rows/50, 1)
	for round := range s.rounds {
		var took [2]time.Duration
		for i := range arms {
			k := (i + round) % len(arms)
			began := time.Now()
			for n := range count {
				tx, err := d.app.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				if err := arms[k].do(tx, round*count+n); err != nil {
					_ = tx.Rollback()
					return err
				}
				if err := tx.Commit(); err != nil {
					return err
				}
			}
			took[k] = time.Since(began) / time.Duration(count)
			fmt.Printf("%s, round %d  %-13s %6.0f µs a transaction\n", name, round+1, arms[k].name,
				float64(took[k].Nanoseconds())/1000)
		}
		ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
	}
	fmt.Printf("%s, outbox.Insert to a plain INSERT: %s\n", name, meter.Spread(ratios))
	return nil
}

package guide_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/postgres"
)

func shipOrder(ctx context.Context, s *postgres.Store, pool *pgxpool.Pool) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO orders (id) VALUES (42)`); err != nil {
			return err
		}
		return store.SendTx(ctx, s, tx, pawl.Message{Topic: "ship", Body: []byte("42")}) // an error rolls both back
	})
	if err == nil {
		s.Wake("ship") // workers of this process need not wait for their next poll
	}
	return err
}

func shipOrderSQL(ctx context.Context, s store.Store, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id) VALUES (43)`); err != nil {
		return err
	}
	if err := store.SendTx(ctx, s, tx, pawl.Message{Topic: "ship", Body: []byte("43")}); err != nil {
		return err
	}
	return tx.Commit()
}

func TestTransactionOnPostgres(t *testing.T) {
	ctx, url := t.Context(), os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		if slices.Contains(strings.Split(os.Getenv("PAWL_TEST_REQUIRE"), ","), "postgres") {
			t.Fatal("PAWL_TEST_POSTGRES is not set, but PAWL_TEST_REQUIRE asks for postgres")
		}
		t.Skip("PAWL_TEST_POSTGRES is not set: dev/services run -- go test ./examples/guide")
	}
	schema := fmt.Sprintf("guide_%x", rand.Uint64())
	s, err := postgres.Open(ctx, postgres.Config{URL: url, Schema: schema, AutoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = schema // for the table of orders
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	defer func() { _, _ = pool.Exec(context.Background(), "DROP SCHEMA "+schema+" CASCADE") }()
	if _, err := pool.Exec(ctx, `CREATE TABLE orders (id int PRIMARY KEY)`); err != nil {
		t.Fatal(err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	for name, ship := range map[string]func() error{
		"pgx":          func() error { return shipOrder(ctx, s, pool) },
		"database/sql": func() error { return shipOrderSQL(ctx, s, db) },
	} {
		if err := ship(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if ship() == nil { // it breaks the primary key, and takes its message back
			t.Errorf("%s: the same order twice: no error", name)
		}
	}
	if got := waiting(t, s); got != "[42 43]" && got != "[43 42]" {
		t.Errorf("messages %s, want those of the orders that were committed", got)
	}
}

package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	_ "github.com/jackc/pgx/v5/stdlib" // registers "pgx"

	"github.com/pawl-dev/pawl/bench/internal/harness"
	"github.com/pawl-dev/pawl/outbox"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/postgres"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// projection is the name of the projection everywhere.
const projection = "search"

// database is an empty one with an outbox, and a folder.
type database struct {
	dir, url string
	app      *sql.DB // the application's connections
	store    store.Store
	drop     func() error
}

func newDatabase(ctx context.Context, s *settings, name string) (d *database, err error) {
	d = &database{drop: func() error { return nil }}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.dir, err = os.MkdirTemp("", "projectbench"); err != nil {
		return nil, err
	}
	driver, dsn := "sqlite", "" // the store's own library
	if name == "postgres" {
		driver = "pgx"
		if dsn, d.drop, err = harness.Fresh(ctx, s.postgres); err != nil {
			return nil, err
		}
		d.url = dsn
		d.store, err = postgres.Open(ctx, postgres.Config{URL: dsn, AutoMigrate: true})
	} else {
		file := filepath.Join(d.dir, "app.db")
		d.url, dsn = "sqlite:"+file, "file:"+file+
			"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=synchronous(FULL)"
		d.store, err = sqlite.Open(ctx, sqlite.Config{Path: file})
	}
	if err != nil {
		return nil, err
	}
	o, ok := store.As[installer](d.store)
	if !ok {
		return nil, fmt.Errorf("%s has no outbox", name)
	}
	if _, err := o.InstallOutbox(ctx); err != nil {
		return nil, err
	}
	if err := o.OutboxTopic(ctx, projection); err != nil {
		return nil, err
	}
	d.app, err = sql.Open(driver, dsn)
	return d, err
}

func (d *database) close() {
	if d.app != nil {
		_ = d.app.Close()
	}
	if d.store != nil {
		_ = d.store.Close()
	}
	if err := d.drop(); err != nil {
		fmt.Fprintln(os.Stderr, "projectbench:", err)
	}
	_ = os.RemoveAll(d.dir)
}

// insert puts changes into the outbox, in one transaction of the application.
func (d *database) insert(ctx context.Context, from, n int) error {
	changes := make([]outbox.Change, n)
	for i := range changes {
		changes[i] = change(from + i)
	}
	return d.inTx(ctx, func(tx *sql.Tx) error { return outbox.Insert(ctx, tx, changes...) })
}

// inTx runs a transaction of the application.
func (d *database) inTx(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := d.app.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func change(n int) outbox.Change {
	return outbox.Change{Projection: projection, DocID: id(n), Version: 1, Doc: document(n)}
}

func id(n int) string { return fmt.Sprintf("product-%d", n) }

// document has 190 bytes.
func document(n int) string {
	return fmt.Sprintf(`{"n":%d,"name":"Product %d of the catalogue","category":"category-%d","price":%d.99,`+
		`"text":"Some words about it, as they stand on the page of a shop for everybody to read."}`, n, n, n%50, n%1000)
}

func unique() string {
	var b [6]byte
	_, _ = rand.Read(b[:])
	return "bench" + hex.EncodeToString(b[:])
}

// outboxStage ends the name of the topic of a projection.
const outboxStage = "index"

// installer is what a store needs to have an outbox.
type installer interface {
	InstallOutbox(ctx context.Context) (grants []string, err error)
	OutboxTopic(ctx context.Context, projection string) error
}

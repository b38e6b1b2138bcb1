package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/bench/internal/harness"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// site is a fresh store that is measured.
type site struct {
	name, url string
	server    bool
	store     store.Store
	topics    store.Topics
	remove    func() error
}

// newSite makes a store of a kind.
func newSite(ctx context.Context, name string) (*site, error) {
	at, err := map[string]func(context.Context) (*site, error){"sqlite": newSQLite, "postgres": newPostgres}[name](ctx)
	if err != nil {
		return nil, err
	}
	if at.store, err = open.Open(ctx, open.Config{URL: at.url, AutoMigrate: true}); err != nil {
		return nil, errors.Join(err, at.remove())
	}
	at.name = name
	at.topics, _ = store.As[store.Topics](at.store)
	return at, nil
}

func newSQLite(context.Context) (*site, error) {
	dir, err := os.MkdirTemp("", "pawl-slo-")
	return &site{url: "sqlite:" + filepath.Join(dir, "pawl.db"), remove: func() error { return os.RemoveAll(dir) }}, err
}

func newPostgres(ctx context.Context) (*site, error) {
	address, drop, err := harness.Fresh(ctx, os.Getenv("PAWL_TEST_POSTGRES"))
	return &site{url: address, server: true, remove: drop}, err
}

func (at *site) close() error { return errors.Join(at.store.Close(), at.remove()) }

// fill appends n messages to a topic.
func (at *site) fill(ctx context.Context, topic string, n int) error {
	for n > 0 {
		msgs := make([]pawl.Message, min(n, 1000))
		for i := range msgs {
			msgs[i] = pawl.Message{Topic: topic, Body: make([]byte, 84)}
		}
		if err := store.Send(ctx, at.store, msgs...); err != nil {
			return err
		}
		n -= len(msgs)
	}
	return nil
}

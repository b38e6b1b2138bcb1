package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/demo/site"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// DefaultPages is how many pages the site has unless told otherwise.
const DefaultPages = site.DefaultPages

// lease is short, so that what a killed crawl was doing moves on in seconds when
// it is resumed.
const lease = 5 * time.Second

// What a crawl can end with, beside an account.
var (
	// ErrStarted says that the folder, or the store, holds a crawl already.
	ErrStarted = errors.New("a crawl has been started here")
	// ErrUnfinished says that the crawl was interrupted; it can be resumed.
	ErrUnfinished = errors.New("the crawl is not finished")
)

// Run is what makes a crawl what it is. It is written into the folder, so that
// one that is resumed is the same one.
type Run struct {
	Pages int    `json:"pages"`
	Seed  uint64 `json:"seed"`
}

// Config is a crawl and where it happens.
type Config struct {
	Run
	Store  store.Store
	Dir    string // keeps run.json and pages.jsonl; it is there
	Resume bool
	Board  io.Writer
	Live   bool // Board is a terminal
	Logger *slog.Logger
}

// Crawl carries every page of the site to stored or dead, or as far as ctx lets
// it, and makes up the account.
func Crawl(ctx context.Context, c Config) (Summary, error) {
	sum, err := crawl(ctx, c)
	if err != nil && ctx.Err() != nil {
		return sum, ErrUnfinished // whatever it was in the middle of
	}
	return sum, err
}

func crawl(ctx context.Context, c Config) (Summary, error) {
	b, err := look(c.Store)
	if err != nil {
		return Summary{}, err
	}
	if c.Run, err = begin(ctx, b, c); err != nil {
		return Summary{}, err
	}
	h, err := serve(ctx, c.Run)
	if err != nil {
		return Summary{}, err
	}
	defer h.close()
	fmt.Fprintf(c.Board, "a site of %d pages at http://%s, with %d that cannot be read and %d that always fail\n",
		h.site.Len(), h.addr, len(h.site.Broken()), len(h.site.Failing()))
	// A repetition of the seed is a duplicate, so that a resumed crawl needs no
	// knowledge of how far the first one came.
	if _, err := c.Store.Append(ctx, store.NewBatch(visit(page("/"), 0))); err != nil {
		return Summary{}, fmt.Errorf("append the first page: %w", err)
	}
	began := time.Now()
	if err := work(ctx, c, b, h); err != nil {
		return Summary{}, err
	}
	if ctx.Err() != nil {
		return Summary{}, ErrUnfinished
	}
	return account(ctx, b, h.site, filepath.Join(c.Dir, "pages.jsonl"), time.Since(began))
}

// work runs the three handlers until nothing is left to do.
func work(ctx context.Context, c Config, b backend, h *host) error {
	p, err := policy.NewMatrix(nil, minuteRule())
	if err != nil {
		return err
	}
	d, err := dispatch.New(c.Store, dispatch.Config{
		Topics: []dispatch.Topic{
			{Name: Fetch, Handler: &fetcher{h.client()}, Concurrency: 2 * Slots, Lease: lease},
			{Name: Parse, Handler: pawl.HandlerFunc(parse), Concurrency: 4, Lease: lease},
			{Name: Save, Handler: pawl.Typed(decode, save), Concurrency: 4, Lease: lease},
		},
		Policy:     p,
		UntilEmpty: true,
		Logger:     c.Logger,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	live := &board{w: c.Board, live: c.Live, site: h.site, began: time.Now()}
	done := make(chan struct{})
	go func() { defer close(done); live.run(ctx, b) }()
	err = d.Run(ctx)
	stop()
	<-done
	return err
}

func decode(body []byte, r *Record) error { return json.Unmarshal(body, r) }

// minuteRule is the default rule, with delays that fit a demonstration of a minute.
func minuteRule() policy.Rule {
	r := policy.Default()
	r.ID, r.MaxAttempts = "demo", 4
	r.Backoff = policy.Backoff{Shape: policy.Exponential, Base: 100 * time.Millisecond, Max: time.Second}
	return r
}

// look finds what the demo needs in a store.
func look(s store.Store) (backend, error) {
	i, ok1 := store.As[store.Looker](s)
	d, ok2 := store.As[store.DeadLetters](s)
	t, ok3 := store.As[store.Topics](s)
	if !ok1 || !ok2 || !ok3 {
		return nil, &store.Error{Op: "demo", Code: store.ErrUnsupported,
			Hint: "it needs lookup, dead letters and topics: use SQLite or PostgreSQL"}
	}
	return struct {
		store.Looker
		store.DeadLetters
		store.Topics
	}{i, d, t}, nil
}

// begin writes down what crawl this is, or reads it.
func begin(ctx context.Context, b backend, c Config) (Run, error) {
	file := filepath.Join(c.Dir, "run.json")
	text, err := os.ReadFile(file)
	switch {
	case err == nil && c.Resume:
		var was Run
		if err := json.Unmarshal(text, &was); err != nil {
			return was, fmt.Errorf("read %s: %w", file, err)
		}
		return was, nil
	case err == nil:
		return c.Run, fmt.Errorf("%s: %w", c.Dir, ErrStarted)
	case !errors.Is(err, fs.ErrNotExist):
		return c.Run, err
	}
	if stats, err := b.Stats(ctx, Fetch); err != nil {
		return c.Run, err
	} else if len(stats) > 0 && stats[0].Appended > 0 {
		return c.Run, fmt.Errorf("the store: %w, by a run of another folder", ErrStarted)
	}
	// A run that dies in it has not been started.
	return c.Run, pipeline.WriteFile(file, 0o644, func(w io.Writer) error { return json.NewEncoder(w).Encode(c.Run) })
}

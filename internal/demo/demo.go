package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/crawl"
	"github.com/pawl-dev/pawl/store"
)

// The topics of the crawl.
const (
	name     = "demo"
	requests = name + ".request"
	results  = name + ".store"
)

// perHost is how many requests to the site run at once, at most.
const perHost = 8

// What a crawl can end with, beside an account.
var (
	// ErrStarted says that the folder, or the store, holds a crawl already.
	ErrStarted = errors.New("a crawl has been started here")
	// ErrUnfinished says that the crawl was interrupted; it can be resumed.
	ErrUnfinished = errors.New("the crawl is not finished")
)

// Run identifies a crawl. It is written into the folder, so that the same crawl is
// resumed.
type Run struct {
	Pages   int      `json:"pages"`
	Seed    uint64   `json:"seed"`
	Summary *Summary `json:"summary,omitempty"` // once it is finished
}

// Config is a crawl and where it happens.
type Config struct {
	Run
	Store  store.Store
	Dir    string // keeps run.json and pages.jsonl; it is there
	Resume bool
	Board  io.Writer
	// Show draws lines at the bottom of the terminal, as [pipeline.Invocation] does; nil: Board is none.
	Show   func(lines []string)
	Logger *slog.Logger
}

// Crawl crawls every page of the site until it is stored or dead, or ctx ends, and
// returns the summary.
func Crawl(ctx context.Context, c Config) (Summary, error) {
	sum, err := c.crawl(ctx)
	if err != nil && ctx.Err() != nil {
		return sum, ErrUnfinished // whatever it was in the middle of
	}
	return sum, err
}

func (c *Config) crawl(ctx context.Context) (Summary, error) {
	topics, ok := store.As[store.Topics](c.Store)
	letters, has := store.As[store.DeadLetters](c.Store)
	if !ok || !has {
		return Summary{}, &store.Error{Op: "demo", Code: store.ErrUnsupported,
			Hint: "it needs topics and dead letters: use SQLite or PostgreSQL"}
	}
	if err := c.begin(ctx, topics); err != nil {
		return Summary{}, err
	}
	if c.Summary != nil { // it was finished before
		return *c.Summary, nil
	}
	h, err := serve(ctx, c.Run)
	if err != nil {
		return Summary{}, err
	}
	defer h.close()
	fmt.Fprintf(c.Board, "a site of %d pages at %s, with %d that cannot be read and %d that always fail\n",
		len(h.site.pages), h.url, h.site.with(broken), h.site.with(failing))
	live := &board{ctx: ctx, topics: topics, site: h.site, began: time.Now()}
	shown := (&pipeline.Invocation{Stderr: c.Board, Show: c.Show}).Board(live.lines, live.line)
	sums, err := crawl.Run(ctx, c.Store, c.Logger, c.module(h))
	shown.Stop()
	if err != nil {
		return Summary{}, err
	}
	sum := Summary{Summary: sums[0], Reachable: len(h.site.pages)}
	sum.ElapsedSeconds = time.Since(live.began).Seconds()
	if err := sum.compare(ctx, letters, h.site); err != nil {
		return sum, err
	}
	c.Summary = &sum
	return sum, c.save()
}

// module is the crawl of the site, which is asked as a proxy: so it has the same name in every run, whatever its port.
func (c *Config) module(h *host) crawl.Module {
	m := crawl.Module{Name: name, Out: filepath.Join(c.Dir, "pages.jsonl"), Options: crawl.Defaults(page("/")),
		Parse: refuseBroken}
	m.Proxies, m.AllowPrivate, m.Cache, m.PerHost = []string{h.url}, true, "off", perHost
	return m
}

// refuseBroken refuses a page that is not text, or that has no title or main part: a dead letter gets attention, an
// empty record would not.
func refuseBroken(_ context.Context, p *crawl.Page) error {
	switch {
	case !utf8.Valid(p.Body):
		return errors.New("the page is not valid UTF-8, which its Content-Type says it is")
	case p.Title == "":
		return errors.New("the page has no title")
	case !bytes.Contains(p.Body, []byte("<main>")):
		return errors.New("the page has no main part")
	}
	return nil
}

func (c *Config) file() string { return filepath.Join(c.Dir, "run.json") }

// begin writes down what crawl this is, or reads it.
func (c *Config) begin(ctx context.Context, topics store.Topics) error {
	text, err := os.ReadFile(c.file())
	switch {
	case err == nil && c.Resume:
		if err := json.Unmarshal(text, &c.Run); err != nil {
			return fmt.Errorf("read %s: %w", c.file(), err)
		}
		return nil
	case err == nil:
		return fmt.Errorf("%s: %w", c.Dir, ErrStarted)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if stats, err := topics.Stats(ctx, requests); err != nil {
		return err
	} else if len(stats) > 0 && stats[0].Appended > 0 {
		return fmt.Errorf("the store: %w, by a run of another folder", ErrStarted)
	}
	return c.save() // a run that dies in it has not been started
}

func (c *Config) save() error {
	return pipeline.WriteFile(c.file(), 0o644, func(w io.Writer) error { return json.NewEncoder(w).Encode(c.Run) })
}

// siteName is the name under which the site is crawled. It stands for the loopback
// port, which is another one after a restart: URLs must outlive it.
const siteName = "docs.pawl.test"

// host is the site on a loopback port.
type host struct {
	site   *site
	server *http.Server
	url    string // of the port
}

// serve opens the site and serves it until close.
func serve(ctx context.Context, run Run) (*host, error) {
	s := newSite(run.Pages, run.Seed)
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the site: %w", err)
	}
	h := &host{site: s, url: "http://" + l.Addr().String(), server: &http.Server{Handler: s,
		ReadHeaderTimeout: 10 * time.Second}}
	go func() { _ = h.server.Serve(l) }() // ends with close
	return h, nil
}

func (h *host) close() { _ = h.server.Close() }

// page is the URL of a path of the site.
func page(path string) string { return "http://" + siteName + path }

package open

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/postgres"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// DefaultStore is the URL of the store if none is given.
const DefaultStore = "sqlite:pawl.db"

// ErrURL is wrapped by errors about a store's URL.
var ErrURL = errors.New("the store's URL")

// Config says which store to open, and how.
type Config struct {
	// URL names the store, as the flag --store does: memory:, sqlite:FILE, postgres://…, kafka://….
	URL string
	// AutoMigrate brings the schema of a store on a server up to date. Embedded stores
	// always do so.
	AutoMigrate bool
	// NoCheck opens a store on a server whose schema is missing or of another
	// version, to migrate it; with Look an embedded one, too.
	NoCheck bool
	// Look opens a store to look at it. An embedded one is read only if its file is
	// there, and its schema stays as it is; in PostgreSQL, too, what is due is left
	// to others, so that a lease that is over is shown as one.
	Look bool
	// Existing opens an embedded store only if its file is there.
	Existing bool
	// Created is called with the path of a file that is about to be created.
	Created func(path string)
	// Waiting is called with the path of a file when a call waits for a process
	// that has a write transaction open on it.
	Waiting func(path string)
	// TakeWithin is how long the store has to accept a message before a fallback store
	// is used; 0: there is none.
	TakeWithin time.Duration
	// Logger gets what an operator should know of the store; nil is none.
	Logger *slog.Logger
}

// Backend is a kind of store, as `pawl stores` shows it.
type Backend struct {
	store.Description
	// Embedded tells that it needs no server.
	Embedded bool
	// Planned tells that it is not implemented yet.
	Planned bool
}

// backend is a kind of store.
type backend struct {
	schemes  []string
	describe func() store.Description
	// embedded tells that it needs no server.
	embedded bool
	open     func(context.Context, Config) (store.Store, error) // nil: planned
	// check says what is wrong with a URL, as far as that shows without opening it.
	check func(Config) error
	// identity names the place where the store of a URL keeps its messages: two URLs
	// with the same one are surely of one store. Empty: the URL does not tell. nil:
	// none does.
	identity func(url string) string
	// file is the path of the store's file; nil: it is in none.
	file func(url string) string
	// taken says why a topic can have no messages in the store of a URL, and what to do; nil: each can.
	taken func(url, topic string) (why, hint string)
	// plain says why what is sent to another machine may be plaintext; nil: it is not known.
	plain func(url string) string
}

// backends are all kinds of stores, one entry each. `pawl stores` shows them in this
// order.
func backends() []backend {
	return []backend{
		{schemes: []string{"sqlite"}, describe: sqlite.Description, embedded: true,
			open: openSQLite, check: checkSQLite, identity: sqliteIdentity, file: sqliteFile},
		{schemes: []string{"memory"}, describe: memory.Description, embedded: true, open: openMemory,
			check: checkMemory},
		{schemes: []string{"postgres", "postgresql"}, describe: postgres.Description,
			open: openPostgres, check: checkPostgres, identity: postgresIdentity, plain: postgresPlain},
		{schemes: []string{"mysql", "mariadb"}, describe: planned("mysql", "mysql://USER@HOST:PORT/DATABASE")},
		{schemes: []string{"redis", "rediss"}, describe: planned("redis", "redis://HOST:PORT/NUMBER")},
		{schemes: []string{"kafka"}, describe: kafka.Description, open: openKafka, check: checkKafka,
			identity: kafkaIdentity, taken: kafkaTaken},
	}
}

// backendOf is the kind of store that a URL names, a planned one included.
func backendOf(url string) (b backend, ok bool) {
	scheme, _, found := strings.Cut(url, ":")
	all := backends()
	i := slices.IndexFunc(all, func(b backend) bool { return slices.Contains(b.schemes, strings.ToLower(scheme)) })
	if !found || i < 0 {
		return backend{}, false
	}
	return all[i], true
}

// about asks the kind of store that a URL names about that URL, without the options of decorators; empty where it
// does not tell.
func about(url string, question func(backend) func(url string) string) string {
	base, _, err := unwrapURL(url)
	b, ok := backendOf(base)
	if err != nil || !ok { // opening it says so
		return ""
	}
	if answer := question(b); answer != nil {
		return answer(base)
	}
	return ""
}

// File is the path of the file of an embedded store; empty if it is in none.
func File(url string) string {
	return about(url, func(b backend) func(string) string { return b.file })
}

// Plain says why what a store with that URL sends to another machine may be plaintext;
// empty where it is not, or that is not known.
func Plain(url string) string {
	return about(url, func(b backend) func(string) string { return b.plain })
}

func planned(name, form string) func() store.Description {
	return func() store.Description {
		return store.Description{Name: name, URL: form, Durability: "planned: not in this version"}
	}
}

// Backends returns every kind of store, those that are planned last.
func Backends() []Backend {
	var all []Backend
	for _, b := range backends() {
		all = append(all, Backend{Description: b.describe(), Embedded: b.embedded, Planned: b.open == nil})
	}
	return all
}

// Ranks reports whether the store that a URL names hands messages out by priority.
func Ranks(storeURL string) bool {
	b, ok := backendOf(storeURL)
	return ok && b.describe().Capabilities.Has(store.CanPriority)
}

// Open opens the store that a URL names, with what its options put around it. The
// context bounds the opening only. When it is cancelled, Open returns at once: what waits
// for a server, or for a lock, ends in the background.
func Open(ctx context.Context, c Config) (store.Store, error) {
	type result struct {
		s   store.Store
		err error
	}
	done := make(chan result, 1)
	go func() {
		s, err := openURL(ctx, c)
		done <- result{s, err}
	}()
	select {
	case r := <-done:
		return r.s, r.err
	case <-ctx.Done():
	}
	if !errors.Is(ctx.Err(), context.Canceled) { // the store says more about what took so long
		r := <-done
		return r.s, r.err
	}
	go func() {
		if r := <-done; r.err == nil {
			_ = r.s.Close()
		}
	}()
	return nil, fmt.Errorf("open: %w", context.Cause(ctx))
}

func openURL(ctx context.Context, c Config) (store.Store, error) {
	if err := Check(c.URL); err != nil {
		return nil, err
	}
	base, w, err := unwrapURL(c.URL)
	if err != nil {
		return nil, err
	}
	inner := c
	inner.URL = base
	if w.fallback != "" {
		inner.NoCheck = true // it may be unreachable: that is what the fallback is for
		inner.TakeWithin = w.spill.PrimaryTimeout
	}
	b, err := usable(base)
	if err != nil {
		return nil, err
	}
	s, err := b.open(ctx, inner)
	if err != nil {
		return nil, err
	}
	return w.wrap(ctx, s, c)
}

// Check reports what is wrong with the URL of a store, as far as that shows without opening it.
func Check(url string) error {
	base, w, err := unwrapURL(url)
	if err != nil {
		return err
	}
	b, err := usable(base)
	if err == nil {
		err = b.check(Config{URL: base})
	}
	return errors.Join(err, w.check())
}

// CheckTopic says why a topic can have no messages in the store that a URL names, and what to do; empty if it can.
func CheckTopic(url, topic string) (why, hint string) {
	base, _, err := unwrapURL(url)
	if b, ok := backendOf(base); err == nil && ok && b.taken != nil {
		return b.taken(base, topic)
	}
	return "", ""
}

// usable is the kind of store that a URL names, if this version has it.
func usable(url string) (backend, error) {
	scheme, _, ok := strings.Cut(url, ":")
	if !ok {
		return backend{}, urlError("%q has no scheme; did you mean sqlite:%s?", redact.URL(url), redact.URL(url))
	}
	switch b, ok := backendOf(url); {
	case ok && b.open == nil:
		return b, urlError("%s is planned, not part of this version", b.describe().Name)
	case ok:
		return b, nil
	}
	var forms []string
	for _, b := range backends() {
		if b.open != nil {
			forms = append(forms, b.describe().URL)
		}
	}
	return backend{}, urlError("there is no store %q; there are %s", scheme, strings.Join(forms, ", "))
}

func urlError(why string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrURL, fmt.Sprintf(why, args...))
}

func openMemory(context.Context, Config) (store.Store, error) {
	return memory.New(memory.Config{}), nil
}

func checkMemory(c Config) error {
	if _, rest, _ := strings.Cut(c.URL, ":"); rest != "" && rest != "//" {
		return urlError("memory: takes nothing after the colon")
	}
	return nil
}

func take(options url.Values, name string) string {
	v := options.Get(name)
	options.Del(name)
	return v
}

func nothingLeft(options url.Values, known ...string) error {
	for name := range options {
		return urlError("option %q is unknown; there is %s", name, strings.Join(known, ", "))
	}
	return nil
}

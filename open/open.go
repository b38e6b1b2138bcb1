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
	"github.com/pawl-dev/pawl/store/memory"
)

// DefaultStore is where messages are kept unless somebody says otherwise.
const DefaultStore = "sqlite:pawl.db"

// ErrURL is what an error wraps that is about a store's URL.
var ErrURL = errors.New("the store's URL")

// Config says which store to open, and how.
type Config struct {
	URL string
	// AutoMigrate brings the schema of a store on a server up to date. That of an
	// embedded store always is.
	AutoMigrate bool
	// NoCheck opens a store on a server whose schema is missing or of another
	// version: to migrate it.
	NoCheck bool
	// Look leaves the schema of an embedded store as it is, whatever it is, if its
	// file is there.
	Look bool
	// Existing opens an embedded store only if its file is there.
	Existing bool
	// Created is called with the path of a file that is going to be made.
	Created func(path string)
	// Waiting is called with the path of a file when a call waits for a process
	// that has a write transaction open on it.
	Waiting func(path string)
	// Patience is for how long the store has to take a message before another one
	// does; 0: there is no other.
	Patience time.Duration
	// Logger gets what an operator should know of the store; nil is none.
	Logger *slog.Logger
}

// Backend is a kind of store, as `pawl stores` shows it.
type Backend struct {
	store.Description
	// Embedded tells that it needs no server.
	Embedded bool
	// Planned tells that it is not there yet.
	Planned bool
}

// backend is a kind of store and how it is opened.
type backend struct {
	schemes  []string
	describe func() store.Description
	embedded bool
	open     func(context.Context, Config) (store.Store, error) // nil: planned
}

func backends() []backend {
	return []backend{
		sqliteBackend(),
		memoryBackend(),
		postgresBackend(),
		{[]string{"mysql", "mariadb"}, planned("mysql", "mysql://USER@HOST:PORT/DATABASE"), false, nil},
		{[]string{"redis", "rediss"}, planned("redis", "redis://HOST:PORT/NUMBER"), false, nil},
		kafkaBackend(),
	}
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

// Ranks tells whether the store that a URL names hands messages out by priority.
func Ranks(storeURL string) bool {
	scheme, _, _ := strings.Cut(storeURL, ":")
	for _, b := range backends() {
		if slices.Contains(b.schemes, strings.ToLower(scheme)) {
			return b.describe().Capabilities.Has(store.CanPriority)
		}
	}
	return false
}

// Open opens the store that a URL names, with what its options put around it. The
// context bounds the opening only.
func Open(ctx context.Context, c Config) (store.Store, error) {
	base, w, err := unwrapURL(c.URL)
	if err != nil {
		return nil, err
	}
	inner := c
	inner.URL = base
	if w.fallback != "" {
		inner.NoCheck = true // it may be away: that is what the fallback is for
		inner.Patience = w.spill.PrimaryTimeout
	}
	s, err := openBackend(ctx, inner)
	if err != nil {
		return nil, err
	}
	return w.wrap(ctx, s, c)
}

// openBackend opens the store that a URL without such options names.
func openBackend(ctx context.Context, c Config) (store.Store, error) {
	scheme, _, ok := strings.Cut(c.URL, ":")
	if !ok {
		return nil, urlError("%q has no scheme; did you mean sqlite:%s?", redact.URL(c.URL), redact.URL(c.URL))
	}
	var forms []string
	for _, b := range backends() {
		d := b.describe()
		for _, s := range b.schemes {
			switch {
			case s != strings.ToLower(scheme):
			case b.open == nil:
				return nil, urlError("%s is planned, not part of this version", d.Name)
			default:
				return b.open(ctx, c)
			}
		}
		if b.open != nil {
			forms = append(forms, d.URL)
		}
	}
	return nil, urlError("there is no store %q; there are %s", scheme, strings.Join(forms, ", "))
}

func urlError(why string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrURL, fmt.Sprintf(why, args...))
}

func memoryBackend() backend {
	return backend{[]string{"memory"}, memory.Description, true, openMemory}
}

func openMemory(_ context.Context, c Config) (store.Store, error) {
	if _, rest, _ := strings.Cut(c.URL, ":"); rest != "" && rest != "//" {
		return nil, urlError("memory: takes nothing after the colon")
	}
	return memory.New(memory.Config{}), nil
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

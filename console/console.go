package console

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/store"
)

// Config is what a console shows, and to whom.
type Config struct {
	// Store is what it shows; a program that serves an [api.API] gives that instead.
	Store store.Store
	API   *api.API
	// Stores are further ones, for a switch on every page. One without a store is shown from [Console.Open] on.
	Stores []Named
	// BasePath is where the console is: /console. Empty is the root.
	BasePath string
	// Auth says who makes a request, and the role; no role: nobody who may come in. Nil: those whom API lets in, by a
	// proxy, by a token in the form of the login, or without one on this machine where there are no tokens.
	Auth func(*http.Request) (user, role string)
	// ReadOnly hides every change, and refuses it.
	ReadOnly bool
	// Title and Color tell consoles apart. Color is a name or #rrggbb.
	Title, Color string
	// Prometheus is the address of one that has figures of more than a day, for a link; empty: none.
	Prometheus string
	// Waits, if not nil, are how many deliveries of each topic of Store have waited for how long, so far, by upper
	// bounds in seconds, as observe.Metrics counts them.
	Waits func() (bounds []float64, counts map[string][]uint64)
	// Trace is the address of a trace, with {trace} for its id; empty: no link.
	Trace string
}

// Named is a store of several.
type Named struct {
	Name, Color string
	Store       store.Store
}

// site is a store with what shows it.
type site struct {
	name, color, base string // base is the path of its pages
	api               *api.API
	own               bool        // api was made here
	ready             atomic.Bool // it has api and figures
	figures           figures
	memo              memo
	checkup           checkup
}

// Console is the web console. Make one with [New].
type Console struct {
	config   Config
	sites    []*site
	mux      atomic.Pointer[http.ServeMux]
	opening  sync.Mutex // of stores
	logins   throttle
	ended    ended
	links    links
	readers  readers
	patience time.Duration
	ctx      context.Context
	stop     context.CancelFunc
	wg       sync.WaitGroup
}

// New returns a console. Close it when no request is under way.
func New(c Config) (*Console, error) {
	if c.BasePath != "" && (!strings.HasPrefix(c.BasePath, "/") || strings.HasSuffix(c.BasePath, "/")) {
		return nil, errors.New("console: base path " + c.BasePath + " does not begin with / or ends with it")
	}
	if c.API == nil && c.Store == nil {
		return nil, errors.New("console: there is no store to show")
	}
	for _, s := range append(c.Stores, Named{Name: "x", Color: c.Color}) {
		if !storeName.MatchString(s.Name) || s.Color != "" && !color.MatchString(s.Color) {
			return nil, fmt.Errorf("console: store %q: its name has letters, digits and dashes, its color %q is "+
				"a name or #rrggbb", s.Name, s.Color)
		}
	}
	k := &Console{config: c, patience: patience, logins: throttle{seed: maphash.MakeSeed()},
		ended: ended{known: map[string]time.Time{}}}
	k.ctx, k.stop = context.WithCancel(context.Background())
	first := &site{name: c.Title, color: c.Color, base: c.BasePath, api: c.API, own: c.API == nil}
	k.sites = append(k.sites, first)
	err := k.show(first, c.Store)
	first.figures.waits = c.Waits
	for _, s := range c.Stores {
		next := &site{name: s.Name, color: s.Color, base: c.BasePath + "/@" + s.Name, own: true}
		k.sites = append(k.sites, next)
		if s.Store != nil && err == nil {
			err = k.show(next, s.Store)
		}
	}
	if err != nil {
		return nil, err
	}
	for _, s := range k.sites {
		if s.ready.Load() {
			k.wg.Go(func() { s.figures.run(k.ctx, s) })
		}
	}
	k.mux.Store(k.routes())
	return k, nil
}

// show gives a site what it shows.
func (k *Console) show(s *site, of store.Store) (err error) {
	if s.own {
		if s.api, err = api.New(of, api.Config{}); err != nil {
			return err
		}
	}
	s.figures = figures{past: map[string]*past{}, changed: make(chan struct{}), hurry: make(chan struct{}, 1)}
	s.ready.Store(true)
	return nil
}

// Open shows a store of the Config that was not there when the console was made. Call it before Close.
func (k *Console) Open(name string, of store.Store) error {
	k.opening.Lock()
	defer k.opening.Unlock()
	for _, s := range k.sites[1:] {
		if s.name != name || s.ready.Load() {
			continue
		}
		if err := k.show(s, of); err != nil {
			return err
		}
		k.wg.Go(func() { s.figures.run(k.ctx, s) })
		k.mux.Store(k.routes())
		return nil
	}
	return fmt.Errorf("console: no store %q is waited for", name)
}

var storeName, color = regexp.MustCompile(`^[A-Za-z0-9-]+$`), regexp.MustCompile(`^([a-z]+|#[0-9a-fA-F]{3,8})$`)

// colors is the stylesheet of the colors of stores.
func (k *Console) colors(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css")
	for i, s := range k.sites {
		if s.color != "" {
			_, _ = fmt.Fprintf(w, ".site-%d{--store:%s}\n", i, s.color) // the browser asks again
		}
	}
}

// Close ends live pages, and what the console keeps running.
func (k *Console) Close() {
	k.stop()
	k.wg.Wait()
	for _, s := range k.sites {
		if s.own && s.ready.Load() {
			s.api.Close()
		}
	}
}

// EndWaits ends live pages, before a server is shut down.
func (k *Console) EndWaits() { k.stop() }

// public are the routes for those who are not logged in. All others ask for a role.
func (k *Console) public() map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{"GET /static/{name}": serveStatic, "GET /stores.css": k.colors,
		"GET /open": k.open, "GET /login": k.login, "POST /login": k.login, "POST /logout": k.logout,
		"POST /prefer": k.prefer}
}

// routes are the pages of all stores, and what they have in common.
func (k *Console) routes() *http.ServeMux {
	mux := http.NewServeMux()
	base := k.config.BasePath
	for path, serve := range k.public() {
		method, path, _ := strings.Cut(path, " ")
		mux.HandleFunc(method+" "+base+path, serve)
	}
	for _, s := range k.sites {
		if !s.ready.Load() {
			continue
		}
		for _, p := range pages() {
			method := p.method
			if method == "" {
				method = http.MethodGet
			}
			path := p.path
			if path == "/" {
				path = "/{$}"
			}
			mux.HandleFunc(method+" "+s.base+path, k.handle(s, &p))
		}
		mux.HandleFunc("GET "+s.base+"/live", k.live(s))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		v := k.view(w, r, k.sites[0], &page{path: r.URL.Path})
		if v.admit() {
			v.fail(&api.Problem{Status: http.StatusNotFound, Title: "not found", Detail: v.T("There is no such page.")})
		}
	})
	return mux
}

// handle makes a handler of a page.
func (k *Console) handle(s *site, p *page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := k.view(w, r, s, p)
		if !v.admit() {
			return
		}
		if r.Method == http.MethodPost && !v.mayChange() {
			return
		}
		data, err := p.show(v)
		switch {
		case errors.Is(err, errAnswered):
		case errors.Is(err, errPending):
			v.render(http.StatusOK, "pending", nil)
		case err != nil:
			v.fail(err)
		default:
			v.render(http.StatusOK, p.file, data)
		}
	}
}

// errAnswered says that a page has written its answer.
var errAnswered = errors.New("answered")

// ServeHTTP implements http.Handler.
func (k *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !k.guard(w, r) {
		return
	}
	if r.URL.Path == k.config.BasePath {
		http.Redirect(w, r, k.config.BasePath+"/", http.StatusMovedPermanently)
		return
	}
	k.mux.Load().ServeHTTP(w, r)
}

// Base is the path of the first page, without the slash at its end.
func (k *Console) Base() string { return k.config.BasePath }

// Link returns the path of a link that opens a session of the holder of a token, once, within a few minutes.
func (k *Console) Link(secret string) string {
	return k.config.BasePath + "/open?key=" + k.links.add(secret, time.Now())
}

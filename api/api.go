package api

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// Bounds of requests.
const (
	MaxBody    = 64 << 20         // bytes of a request, also when unpacked, and of all that are being read together
	MaxItems   = 10_000           // messages, tokens or settlements of a request
	MaxWaiting = 1000             // leases that wait at once
	headerTime = time.Second      // for the headers of a request
	stallTime  = 30 * time.Second // without a byte, either way
	storeTime  = 20 * time.Second // for a call of the store
)

// Config is what a door needs besides its store.
type Config struct {
	// Access says who may do what. Without tokens and proxy, every request to a loopback
	// address that names it as such is an operator's, a producer's and a worker's.
	Access Access
	// BasePath is where the routes begin, behind a proxy: /pawl.
	BasePath string
	// Policy decides about failures; nil is that of package policy.
	Policy policy.Policy
	// Retries is what a topic says about retries; nil is nothing.
	Retries func(topic string) policy.Retries
	// Events gets an event for each delivery that is settled; nil gets none.
	Events dispatch.EventSink
	// Board has the events that GET /v1/events shows; nil shows none.
	Board *observe.Board
	// Rooms are what a program has beside its store.
	Rooms   Rooms
	Owner   string       // names this process
	Version string       // of the program; may be empty
	Logger  *slog.Logger // nil is slog.Default
}

// Rooms are what the routes of a whole program show; without one its route is 404.
type Rooms struct {
	Doctor   func(context.Context) (any, error)
	Commands func() []operate.Command
	Stores   func() any
	// CheckState refuses a value that the daemons would not take from a topic of the state.
	CheckState    func(topic string, value []byte) error
	PolicyLs      func() ([]operate.PolicyRule, error)
	PolicyExplain func(*operate.Failure) (operate.Decision, error)
}

// API serves a store over HTTP. Make one with [New].
type API struct {
	store   store.Store
	config  Config
	access  atomic.Pointer[access]
	judge   dispatch.Judge
	sealer  *sealer
	append  *appender
	hub     *hub
	workers *workers
	runs    runs
	bodies  budget
	mux     *http.ServeMux
	ctx     context.Context
	stop    context.CancelFunc
	waits   context.Context // ends before ctx does
	ending  context.CancelFunc
	wg      sync.WaitGroup
	boot    string
	packers sync.Pool    // of *gzip.Writer
	readers atomic.Int32 // of events
}

// New returns a door to s.
func New(s store.Store, c Config) (*API, error) {
	if c.BasePath != "" && (!strings.HasPrefix(c.BasePath, "/") || strings.HasSuffix(c.BasePath, "/")) {
		return nil, errors.New("api: base path " + c.BasePath + " does not begin with / or ends with it")
	}
	if c.Policy == nil {
		m, err := policy.NewMatrix(nil)
		if err != nil {
			return nil, err
		}
		c.Policy = m
	}
	if m, ok := c.Policy.(*policy.Matrix); ok && c.Rooms.PolicyLs == nil {
		c.Rooms.PolicyLs = func() ([]operate.PolicyRule, error) { return operate.PolicyRules(m), nil }
		c.Rooms.PolicyExplain = func(f *operate.Failure) (operate.Decision, error) {
			return operate.ExplainFailure(m, f, nil), nil
		}
	}
	if c.Rooms.Commands == nil {
		c.Rooms.Commands = func() []operate.Command { return nil }
	}
	if c.Retries == nil {
		c.Retries = func(string) policy.Retries { return policy.Retries{} }
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	a := &API{store: s, config: c, boot: pawl.NewID()[24:], bodies: budget{most: MaxBody}}
	a.config.Owner = cmp.Or(c.Owner, "api-"+a.boot)
	if err := a.SetAccess(c.Access); err != nil {
		return nil, err
	}
	a.ctx, a.stop = context.WithCancel(context.Background())
	a.packers.New = func() any {
		z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // there is such a level
		return z
	}
	a.waits, a.ending = context.WithCancel(a.ctx)
	a.judge = dispatch.Judge{Store: s, Policy: c.Policy}
	a.sealer = &sealer{store: s}
	a.append = newAppender(a)
	a.hub = newHub(a)
	a.workers = newWorkers()
	a.mux = a.routes()
	a.wg.Go(a.register)
	return a, nil
}

// SetAccess changes who may do what, for requests to come.
func (a *API) SetAccess(c Access) error {
	set, err := a.PrepareAccess(c)
	if err == nil {
		set()
	}
	return err
}

// PrepareAccess is SetAccess in two steps: it finds what is wrong with c, and set puts it into effect.
func (a *API) PrepareAccess(c Access) (set func(), err error) {
	next, err := c.compile()
	if err != nil {
		return nil, err
	}
	return func() { a.access.Store(next) }, nil
}

// Server returns a server for the door that bounds what a client may take: for each
// connection, and in time.
func (a *API) Server() *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: a, ReadHeaderTimeout: headerTime, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		Protocols: &protocols, ErrorLog: slog.NewLogLogger(a.config.Logger.Handler(), slog.LevelDebug),
	}
}

// EndWaits lets waiting leases and readers of events end: nothing came. Call it before the server is shut down.
func (a *API) EndWaits() { a.ending() }

// Close does that too, and withdraws the workers. It does not close the store. Call it when no request is under way.
func (a *API) Close() {
	a.ending()
	a.stop()
	a.wg.Wait()
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{api: a, w: w, r: r, control: http.NewResponseController(w)}
	defer x.end()
	a.serve(x)
}

func (a *API) serve(x *exchange) {
	r := x.r
	x.w.Header().Set("Cache-Control", "no-store")
	x.w.Header().Set("X-Content-Type-Options", "nosniff")
	if a.probe(x) {
		return
	}
	path, ok := strings.CutPrefix(r.URL.Path, a.config.BasePath)
	if !ok {
		x.fail(notFound("there is nothing at " + r.URL.Path))
		return
	}
	if a.config.BasePath != "" {
		r = r.Clone(r.Context())
		r.URL.Path, r.URL.RawPath = path, strings.TrimPrefix(r.URL.RawPath, a.config.BasePath)
		x.r = r
	}
	if err := a.admit(x); err != nil {
		x.fail(err)
		return
	}
	r = r.WithContext(operate.Via(r.Context(), "api "+a.From(r)))
	handler, pattern := a.mux.Handler(r)
	if pattern == "" {
		a.unrouted(x, handler)
		return
	}
	a.mux.ServeHTTP(x.w, r.WithContext(context.WithValue(r.Context(), exchangeKey{}, x)))
}

// probe answers what asks whether this process lives (/livez), and whether its store answers (/readyz). Both are
// for everybody, and below no base path.
func (a *API) probe(x *exchange) bool {
	switch x.r.URL.Path {
	case "/livez":
	case "/readyz":
		entries, ok := store.As[store.Shared](a.store)
		ctx, cancel := context.WithTimeout(x.r.Context(), 5*time.Second)
		defer cancel()
		if !ok {
			break
		}
		if _, err := entries.Clock(ctx); err != nil {
			x.fail(&Problem{Status: http.StatusServiceUnavailable, Title: "not ready", Detail: "the store does not answer",
				after: time.Second})
			return true
		}
	default:
		return false
	}
	_ = x.answer(http.StatusOK, map[string]bool{"ok": true})
	return true
}

// unrouted answers a request that no route is for: the multiplexer knows whether another method has one.
func (a *API) unrouted(x *exchange, otherwise http.Handler) {
	probe := &headerOnly{header: http.Header{}}
	otherwise.ServeHTTP(probe, x.r)
	if probe.status == http.StatusMethodNotAllowed {
		x.w.Header().Set("Allow", probe.header.Get("Allow"))
		x.fail(&Problem{Status: probe.status, Title: "method not allowed", Detail: x.r.Method + " is not for this route",
			Next: "use " + probe.header.Get("Allow")})
		return
	}
	x.fail(notFound("there is no route " + x.r.Method + " " + x.r.URL.Path))
}

// headerOnly keeps what a handler answers, but for the body.
type headerOnly struct {
	header http.Header
	status int
}

func (h *headerOnly) Header() http.Header         { return h.header }
func (h *headerOnly) WriteHeader(status int)      { h.status = status }
func (h *headerOnly) Write(b []byte) (int, error) { return len(b), nil }

// exchange is a request, who makes it, and its answer.
type exchange struct {
	api     *API
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	caller  *caller
	held    int64 // bytes of the budget
	plain   bool  // its answer is not packed
}

type exchangeKey struct{}

func (x *exchange) end() { x.api.bodies.give(x.held) }

// call is a context for calls of the store: it ends with the process, not with the client, so that the outcome of
// what was begun is known.
func (x *exchange) call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(x.r.Context()), storeTime)
}

package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/console"
	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/events"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// DoorConfig is what serves the HTTP API of a store.
type DoorConfig struct {
	API     config.API
	Console config.Console
	Topics  []config.Topic // what they say about retries
	Policy  policy.Policy
	Events  dispatch.EventSink
	Board   *observe.Board
	Rooms   api.Rooms
	Owner   string
	Version string
	Logger  *slog.Logger
	Waits   func() (bounds []float64, counts map[string][]uint64) // of the console; nil: not known
	// Opened, if not nil, is called when ServeAPI serves.
	Opened func(*Door)

	again time.Duration // after which a store of the console is tried again; 0 is storeAgain
}

// Door is the HTTP API of a store, being served. A nil Door serves nowhere.
type Door struct {
	api      *api.API
	console  *console.Console // nil: it is off
	mu       sync.Mutex
	stores   []store.Store // further ones, of the console
	listener net.Listener
	server   *http.Server
	wg       sync.WaitGroup
	stop     context.CancelFunc

	certFile, keyFile string // of TLS; empty: none
	pair              atomic.Pointer[tls.Certificate]
}

// DoorError is why a daemon cannot serve the API as its configuration says.
type DoorError struct{ Err error }

func (e *DoorError) Error() string { return e.Err.Error() }
func (e *DoorError) Unwrap() error { return e.Err }

// OpenDoor listens, and serves the API of s; nil if that is off. The error is an [ErrListen] if it cannot listen.
func OpenDoor(s store.Store, c DoorConfig) (*Door, error) {
	if !c.API.Serves() {
		return nil, nil
	}
	access, err := accessOf(&c.API)
	if err != nil {
		return nil, err
	}
	d := &Door{certFile: c.API.Cert, keyFile: c.API.Key}
	pair, err := d.readPair()
	if err != nil {
		return nil, err
	}
	d.pair.Store(pair)
	retries := map[string]policy.Retries{}
	for _, t := range c.Topics {
		retries[t.Name] = t.Retries
	}
	var kept sync.Map // what operators have set, by topic
	made, err := api.New(s, api.Config{
		Access: access, BasePath: c.API.BasePath, Policy: c.Policy, Events: c.Events, Board: c.Board, Rooms: c.Rooms,
		Owner: c.Owner, Version: c.Version, Logger: c.Logger,
		Retries: func(topic string) policy.Retries {
			set, _ := kept.Load(topic)
			own, _ := set.(policy.Retries)
			return dispatch.RetriesOn(s, own.Or(retries[topic]))
		},
	})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", c.API.Listen)
	if err != nil {
		made.Close()
		return nil, fmt.Errorf("%w: %w", ErrListen, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	d.api, d.listener, d.server, d.stop = made, l, made.Server(), stop
	if err := d.openConsole(ctx, &c); err != nil {
		d.Close()
		return nil, err
	}
	if d.tooOpen(&access) {
		d.Close()
		return nil, fmt.Errorf("%w: %s can be reached from other machines, and api has no tokens", ErrListen, l.Addr())
	}
	d.wg.Go(func() {
		dispatch.WatchRetries(ctx, dispatch.OpenRetries(s, c.Logger),
			func(topic string, r policy.Retries) { kept.Store(topic, r) })
	})
	d.wg.Go(func() {
		err := d.serve()
		if !errors.Is(err, http.ErrServerClosed) {
			c.Logger.Error("the API is no longer served", "error", err)
		}
	})
	c.Logger.Info("the API is served", "listen", l.Addr().String()+c.API.BasePath)
	return d, nil
}

func (d *Door) serve() error {
	if d.certFile == "" {
		return d.server.Serve(d.listener)
	}
	d.server.TLSConfig = &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return d.pair.Load(), nil },
	}
	return d.server.ServeTLS(d.listener, "", "")
}

// readPair reads the certificate and its key, at the start and at a reload: they are renewed in their place. It is nil
// without TLS.
func (d *Door) readPair() (*tls.Certificate, error) {
	if d.certFile == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(d.certFile, d.keyFile)
	if err != nil {
		return nil, fmt.Errorf("api.tls: %w", err)
	}
	return &pair, nil
}

// accessOf reads who may come in. Files of secrets are read here, so that a reload reads them again.
func accessOf(c *config.API) (api.Access, error) {
	a := api.Access{Proxy: api.Proxy{Trusted: c.Trusted, UserHeader: c.User, Roles: c.Roles}}
	for _, t := range c.Tokens {
		secret := t.Token
		if t.File != "" {
			b, err := os.ReadFile(t.File)
			if err != nil {
				return a, fmt.Errorf("api: token %s: %w", t.Name, err)
			}
			secret = strings.TrimSpace(string(b))
		}
		a.Tokens = append(a.Tokens, api.Token{Name: t.Name, Secret: secret, Role: t.Role, Topics: t.Topics})
	}
	return a, nil
}

// Reload changes who may come in, and reads the certificate again.
func (d *Door) Reload(c *config.API) error {
	admit, err := d.prepare(c)
	if err == nil {
		admit()
	}
	return err
}

// prepare finds what is wrong with who may come in, and with the certificate; admit puts them into effect.
func (d *Door) prepare(c *config.API) (admit func(), err error) {
	if d == nil {
		return func() {}, nil
	}
	access, err := accessOf(c)
	if err != nil {
		return nil, err
	}
	if d.tooOpen(&access) {
		return nil, errors.New("api: without tokens it can only be served on a loopback address")
	}
	pair, err := d.readPair()
	if err != nil {
		return nil, err
	}
	set, err := d.api.PrepareAccess(access)
	return func() {
		set()
		d.pair.Store(pair)
	}, err
}

// tooOpen reports whether anybody from another machine could come in.
func (d *Door) tooOpen(a *api.Access) bool {
	tcp, ok := d.listener.Addr().(*net.TCPAddr)
	return a.Open() && (!ok || !tcp.IP.IsLoopback())
}

// Address is where it listens; empty if nowhere.
func (d *Door) Address() string {
	if d == nil {
		return ""
	}
	return d.listener.Addr().String()
}

// closeTime is how long requests may take to end.
const closeTime = 10 * time.Second

// Close lets requests that are under way end, those that wait at once.
func (d *Door) Close() {
	if d == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	d.api.EndWaits()
	if d.console != nil {
		d.console.EndWaits()
	}
	if d.server.Shutdown(ctx) != nil {
		_ = d.server.Close()
	}
	_ = d.listener.Close()
	d.stop()
	d.wg.Wait()
	if d.console != nil {
		d.console.Close()
	}
	for _, s := range d.stores {
		_ = s.Close()
	}
	d.api.Close()
}

// ServeAPI serves the API of a store until ctx ends, and nothing else; with ticks it sends the messages of schedules,
// too. Each hangup gives it a new configuration.
func ServeAPI(ctx context.Context, s store.Store, c DoorConfig, ticks bool, hangups <-chan struct{},
	reload func() (*config.API, error)) error {
	metrics, err := observe.New(observe.NewRegistry())
	if err != nil {
		return err
	}
	sink, err := events.New(events.Config{Metrics: metrics, Logger: c.Logger})
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeEvents)
		defer cancel()
		_ = sink.Close(end)
	}()
	c.Events, c.Board = sink, sink.Board
	d, err := OpenDoor(s, c)
	if err != nil {
		return err
	}
	defer d.Close()
	if c.Opened != nil {
		c.Opened(d)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	if scheduler, err := cron.New(s, cron.Config{Owner: c.Owner, Logger: c.Logger}); err == nil && ticks {
		wg.Go(func() { scheduler.Run(ctx) })
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangups:
			next, err := reload()
			if err == nil {
				err = d.Reload(next)
			}
			if err != nil {
				c.Logger.Error("configuration not reloaded; the previous one stays in effect", "error", err)
				continue
			}
			c.Logger.Info("the tokens of the API are read again", "tokens", len(next.Tokens))
		}
	}
}

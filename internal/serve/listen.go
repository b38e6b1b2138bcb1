package serve

import (
	"context"
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

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/internal/systemd"
	"github.com/pawl-dev/pawl/observe/watch"
	"github.com/pawl-dev/pawl/store"
)

// Front is where a daemon serves health and metrics. It listens before the store is
// open: until the daemon takes over, the process is alive and not ready. A nil Front
// serves nowhere. It is safe for concurrent use.
type Front struct {
	listener net.Listener
	server   *http.Server
	handler  atomic.Pointer[http.Handler]
	problem  atomic.Pointer[string] // why the store is not open yet
	wg       sync.WaitGroup
}

// NewFront listens at an address, and says there that the store is being opened. It
// returns nil for [config.Off]; the error is an [ErrListen].
func NewFront(address string, logger *slog.Logger) (*Front, error) {
	if address == config.Off {
		return nil, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrListen, err)
	}
	f := &Front{listener: l}
	f.waiting(errors.New("the store is being opened"))
	f.serve(f.early())
	f.server = &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if foreign(l.Addr(), r.Host) {
				watch.Say(w, http.StatusMisdirectedRequest,
					"this address is for programs on this machine: ask for localhost or its IP address\n")
				return
			}
			(*f.handler.Load()).ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: time.Minute,
	}
	f.wg.Go(func() {
		if err := f.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("health and metrics are no longer served", "error", err)
		}
	})
	return f, nil
}

// foreign reports whether a request to a loopback address has a Host that is not this machine's own name. A web page
// can point a name of its own at 127.0.0.1, and make a local browser read what is served (DNS rebinding).
func foreign(at net.Addr, host string) bool {
	tcp, ok := at.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		return false
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host != "localhost" && !strings.HasSuffix(host, ".localhost") && net.ParseIP(strings.Trim(host, "[]")) == nil
}

// early is what is served before there is a daemon.
func (f *Front) early() http.Handler {
	mux := http.NewServeMux()
	watch.Probes(mux, func() []string { return []string{*f.problem.Load()} })
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		watch.Say(w, http.StatusServiceUnavailable, "not ready\n"+*f.problem.Load()+"\n")
	})
	return mux
}

// waiting says why there is no daemon yet.
func (f *Front) waiting(err error) {
	if f != nil {
		text := strings.ReplaceAll(redact.URL(err.Error()), "\n", " ")
		f.problem.Store(&text)
	}
}

// serve has h answer from now on.
func (f *Front) serve(h http.Handler) {
	if f != nil {
		f.handler.Store(&h)
	}
}

// Address is where it listens; empty if nowhere.
func (f *Front) Address() string {
	if f == nil {
		return ""
	}
	return f.listener.Addr().String()
}

// Close ends it. It may be called more than once.
func (f *Front) Close() {
	if f != nil {
		_ = f.server.Close()
		f.wg.Wait()
	}
}

// The pauses between tries to open a store that is not reachable, and how often it is
// said that it is not.
const (
	minAwait  = 100 * time.Millisecond
	maxAwait  = 5 * time.Second
	awaitSaid = 5 * time.Minute
)

// Await opens a store, and retries while it is not reachable: exiting would not help,
// and the service manager would give up restarting. Any other error ends it at once. It
// returns nil without an error if ctx ends before.
func Await(ctx context.Context, front *Front, getenv func(string) string, logger *slog.Logger,
	open func() (store.Store, error)) (store.Store, error) {
	began := time.Now()
	manager, _ := systemd.New(getenv, os.Getpid()) // without one nothing is announced; the daemon warns
	var said time.Time
	for pause := minAwait; ; pause = min(2*pause, maxAwait) {
		s, err := open()
		if err == nil {
			if !said.IsZero() {
				logger.Info("the store can be reached", "after", time.Since(began).Round(time.Millisecond))
			}
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		if !errors.Is(err, store.ErrUnavailable) {
			return nil, err
		}
		front.waiting(err)
		if said.IsZero() || time.Since(said) >= awaitSaid {
			said = time.Now()
			logger.Warn(
				"the store cannot be reached; it is tried again until it can; a changed `store:` in the file needs a restart",
				"error", err, "for", time.Since(began).Round(time.Second))
			manager.Waiting("the store cannot be reached")
		}
		if store.Sleep(ctx, pause) != nil {
			return nil, nil
		}
	}
}

// Package watch gives a program that runs a dispatcher what the daemon has: the figures that the shipped alerts
// need, /livez, /readyz, /healthz and /metrics. One call starts it:
//
//	pages, err := watch.Start(ctx, watch.Config{Store: s, Dispatcher: d, Metrics: metrics, Registry: registry})
//	http.Handle("/", pages)
package watch

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/store"
)

// Config says what is watched. Only Logger is optional.
type Config struct {
	Store      store.Store
	Dispatcher *dispatch.Dispatcher
	Metrics    *observe.Metrics     // the dispatcher's observer
	Registry   *prometheus.Registry // of Metrics
	Logger     *slog.Logger         // default: slog.Default
}

// Start counts until ctx ends, and returns the pages. Call it once for a dispatcher, before it runs.
func Start(ctx context.Context, c Config) (http.Handler, error) {
	if c.Store == nil || c.Dispatcher == nil || c.Metrics == nil || c.Registry == nil {
		return nil, errors.New("watch: Store, Dispatcher, Metrics and Registry are needed")
	}
	if err := observe.Register(c.Registry, Late(c.Dispatcher)); err != nil {
		return nil, err
	}
	c.Logger = cmp.Or(c.Logger, slog.Default())
	problems := func() []string {
		if err := c.Dispatcher.Ready(); err != nil {
			return []string{err.Error()}
		}
		return nil
	}
	c.Metrics.AskReady(func() bool { return c.Dispatcher.Ready() == nil })
	var names []string
	for _, t := range c.Dispatcher.Snapshot().Topics {
		names = append(names, t.Name)
	}
	go Topics(ctx, c.Store, names, c.Metrics, c.Logger)
	go Spill(ctx, c.Store, c.Metrics, c.Logger)
	began, mux := time.Now(), http.NewServeMux()
	Probes(mux, problems)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		show(w, HealthOf(c.Dispatcher, began, problems()))
	})
	mux.Handle("GET /metrics", observe.Handler(c.Registry))
	return mux, nil
}

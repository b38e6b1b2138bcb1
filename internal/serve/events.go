package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/events"
	"github.com/pawl-dev/pawl/observe/logs"
	"github.com/pawl-dev/pawl/observe/watch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// The events of a daemon: what it carries out, and how it is.

const (
	runtimeComponent = "runtime"
	checkEvery       = 5 * time.Second
	closeEvents      = 5 * time.Second // for consumers to take what is left
	maxBehind        = 500             // events that wait for a reader of /events
)

// numbers are left out when problems are compared.
var numbers = regexp.MustCompile(`[0-9.]+(h|m|s|ms|µs)*`)

// openEvents starts the bus, and opens the file for all of it if there is one.
func (d *Daemon) openEvents() error {
	var audit io.Writer
	if path := d.Config.EventsFile; path != "" {
		f, err := logs.OpenLines(path)
		if err != nil {
			return fmt.Errorf("the file for events: %w", err)
		}
		d.eventsFile, audit = f, f
	}
	var err error
	d.events, err = events.New(events.Config{Metrics: d.metrics, Logger: d.Logger, Audit: audit, Redact: d.Redact})
	return err
}

// endEvents says how it ended, and lets consumers take what is left.
func (d *Daemon) endEvents(how error) {
	_ = d.events.SystemStopped(runtimeComponent, how) // counted if no consumer takes it
	ctx, cancel := context.WithTimeout(context.Background(), closeEvents)
	defer cancel()
	if err := d.events.Close(ctx); err != nil {
		d.Logger.Warn("not all events were consumed", "error", err)
	}
	if d.eventsFile != nil {
		if err := d.eventsFile.Close(); err != nil {
			d.Logger.Warn("the file for events was not closed properly", "error", err)
		}
	}
}

// watchHealth looks at how the daemon is, and says so when that has changed. The policy
// decides about it, as about every failure.
func (d *Daemon) watchHealth(ctx context.Context) {
	before := ""
	for store.Sleep(ctx, checkEvery) == nil {
		now := strings.Join(d.problems(), "; ")
		same := numbers.ReplaceAllString(now, "#") // how long it has lasted is no news
		if same == before {
			continue
		}
		before = same
		if now == "" {
			_ = d.events.SystemChecked(runtimeComponent, nil)
			continue
		}
		err := pawl.OfKind(policy.KindService, errors.New(now))
		_ = d.events.SystemChecked(runtimeComponent, err)
		e := policy.Event{Domain: observe.DomainSystem, Type: "SystemHealth", Phase: observe.PhaseCompleted}
		decision := d.policy.Decide(policy.Attempt{Event: e, Number: 1, Err: err})
		d.metrics.Decided("", e.Domain, e.Type, e.Phase, decision.Kind, decision.Rule, decision.Action.String(),
			decision.Alert.String(), decision.Degrade.String())
		d.Logger.Log(ctx, dispatch.Level(decision.Alert), "not healthy", "problems", now, observe.PolicyAction,
			decision.Action.String())
	}
}

// maxReaders bounds who reads events at once: each of them takes memory for those it has not read.
const maxReaders = 32

// boardz shows the newest events, as lines of JSON; with follow=1 those that come, too,
// until the client goes away.
func (d *Daemon) boardz(w http.ResponseWriter, r *http.Request) {
	if d.readers.Add(1) > maxReaders {
		d.readers.Add(-1)
		w.Header().Set("Retry-After", "10")
		watch.Say(w, http.StatusServiceUnavailable, fmt.Sprintf("%d readers follow the events already\n", maxReaders))
		return
	}
	defer d.readers.Add(-1)
	w.Header().Set("Content-Type", "application/jsonl")
	w.Header().Set("Cache-Control", "no-store")
	newest, watcher := d.events.Board.Subscribe(maxBehind)
	defer watcher.Close()
	lines := json.NewEncoder(w)
	control := http.NewResponseController(w)
	write := func(e observe.Envelope) bool {
		_ = control.SetWriteDeadline(time.Now().Add(10 * time.Second)) // where there is none, it does without
		return lines.Encode(e) == nil
	}
	for _, e := range newest {
		if !write(e) {
			return
		}
	}
	if r.URL.Query().Get("follow") != "1" {
		return
	}
	for {
		if control.Flush() != nil {
			return
		}
		select {
		case e, ok := <-watcher.Events():
			if !ok || !write(e) {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

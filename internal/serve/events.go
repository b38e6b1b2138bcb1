package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/events"
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
		f, err := openEventsFile(path, d.Logger)
		if err != nil {
			return err
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
		if err := d.eventsFile.close(); err != nil {
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

// eventsFile is the file that gets all events. It is safe for concurrent use.
type eventsFile struct {
	path string
	log  *slog.Logger

	mu   sync.Mutex
	file *os.File
	torn bool // its last line has no end
}

func openEventsFile(path string, log *slog.Logger) (*eventsFile, error) {
	e := &eventsFile{path: path, log: log}
	return e, e.reopen()
}

// reopen opens what is at the path now, for those who have moved the file away. With an
// error, events go on into the file that they went to. What is no regular file, as a pipe
// or /dev/stderr, stays open: it is never rotated, and opening a pipe without a reader
// would block the caller.
func (e *eventsFile) reopen() error {
	if !e.rotates() {
		return nil
	}
	f, err := os.OpenFile(e.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("open the file for events: %w", err)
	}
	torn := endsTorn(f)
	e.mu.Lock()
	before := e.file
	e.file, e.torn = f, torn
	e.mu.Unlock()
	if before != nil {
		if err := before.Close(); err != nil {
			e.log.Warn("the file for events that was there before could not be closed; its last lines may be missing",
				"error", err)
		}
	}
	return nil
}

// rotates reports whether the file may have been moved away: it is not open yet, or a
// regular one.
func (e *eventsFile) rotates() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.file == nil {
		return true
	}
	info, err := e.file.Stat()
	return err != nil || info.Mode().IsRegular()
}

// endsTorn reports whether the last line may have no end: the process that wrote it was
// killed, or its disk full. The next line would be glued to it, and both be lost to
// whoever reads lines.
func endsTorn(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode().Type() != fs.FileMode(0) || info.Size() == 0 {
		return false
	}
	r, err := os.Open(f.Name())
	if err != nil {
		return true // an empty line does no harm
	}
	defer func() { _ = r.Close() }()
	last := make([]byte, 1)
	_, err = r.ReadAt(last, info.Size()-1)
	return err != nil || last[0] != '\n'
}

// Write implements io.Writer.
func (e *eventsFile) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.torn {
		if _, err := e.file.WriteString("\n"); err != nil {
			return 0, err
		}
		e.torn = false
	}
	return e.file.Write(b)
}

func (e *eventsFile) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.file.Close()
}

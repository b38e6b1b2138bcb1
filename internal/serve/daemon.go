package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/systemd"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/events"
	"github.com/pawl-dev/pawl/observe/figures"
	"github.com/pawl-dev/pawl/observe/logs"
	"github.com/pawl-dev/pawl/observe/trace"
	"github.com/pawl-dev/pawl/observe/watch"
	"github.com/pawl-dev/pawl/statesync"
	"github.com/pawl-dev/pawl/store"
)

// DaemonConfig is what a daemon needs besides its configuration.
type DaemonConfig struct {
	Config *config.Config
	// Text is the file that Config was made from. Read reads it again, Load parses it.
	Text []byte
	Read func() (config.Source, error)
	Load func(config.Source) (*config.Config, error)
	// Redact takes secrets out of what is written down; nil takes none out.
	Redact func(string) string
	// Hangup asks for a reload.
	Hangup <-chan struct{}
	Logger *slog.Logger
	// Level is of the logger; a reload may set it.
	Level *slog.LevelVar
	// Stdout and Stderr get what programs write.
	Stdout, Stderr io.Writer
	// Getenv reads the environment: the service manager is described there.
	Getenv  func(string) string
	Version string
	// Logs counts what the sinks of the log, and of the output of programs, made of it; nil counts nothing.
	Logs func() []figures.LogSink
	// Began is when the process began, for its name in leases; zero is now.
	Began time.Time
	// Open opens another store, for a pipeline that has stages elsewhere.
	Open func(ctx context.Context, url string) (store.Store, error)
	// Front is where health and metrics are served; nil: Config says where. Run
	// closes it.
	Front *Front
	// Rooms are what the API shows beside the store.
	Rooms api.Rooms
	// Tracer traces the attempts of all topics; the store is traced already. nil: none.
	Tracer *trace.Tracer
}

// ErrNoTopics: the configuration gives a daemon nothing to do.
var ErrNoTopics = errors.New("the configuration has no topics")

// ErrListen is why a daemon cannot serve its health and metrics.
var ErrListen = errors.New("cannot listen")

// Daemon carries out the topics of a configuration. Make one with [NewDaemon].
type Daemon struct {
	DaemonConfig
	store      store.Store
	programs   *programs
	served     []*servedTopic
	limits     limits
	limitState *statesync.Topic[limitSet]    // nil: limits are those of the file
	overrides  *statesync.Topic[setOverride] // nil: the policy is that of the file
	policy     *livePolicy
	dispatcher *dispatch.Dispatcher
	scheduler  *cron.Scheduler // nil: the store cannot keep schedules
	schedules  observe.Schedules
	host       *Host
	metrics    *observe.Metrics
	scrape     http.Handler
	events     *events.Sink
	eventsFile *logs.Lines // nil: none
	notifier   *systemd.Notifier
	began      time.Time
	readers    atomic.Int32 // of /events
	door       *Door        // nil: the API is off

	mu     sync.Mutex
	loaded loaded
}

// NewDaemon builds a daemon over s. It claims nothing yet, but listens.
func NewDaemon(s store.Store, c DaemonConfig) (*Daemon, error) {
	if len(c.Config.Topics)+len(c.Config.Pipelines)+len(c.Config.Schedules) == 0 {
		return nil, ErrNoTopics
	}
	registry := observe.NewRegistry()
	d := &Daemon{DaemonConfig: c, store: s, began: c.Began, scrape: observe.Handler(registry)}
	if d.began.IsZero() {
		d.began = time.Now()
	}
	d.loaded = loaded{file: c.Config.File, at: d.began}
	var err error
	if d.notifier, err = systemd.New(c.Getenv, os.Getpid()); err != nil {
		c.Logger.Warn("the service manager is not notified", "error", err)
	}
	if d.metrics, err = observe.New(registry); err != nil {
		return nil, err
	}
	d.metrics.Reloaded(true, d.began)
	d.metrics.Objectives(objectives(c.Config.Topics))
	d.warn(c.Config)
	if k, ok := store.As[interface{ Figures() figures.Kafka }](s); ok {
		d.metrics.WatchKafka(k.Figures)
	}
	matrix, err := Matrix(c.Config.Overrides...)
	if err != nil {
		return nil, err
	}
	d.policy = newLivePolicy(matrix, c.Logger)
	if d.programs, err = newPrograms(c.Stdout, c.Stderr, c.Logger); err != nil {
		return nil, err
	}
	if err = d.openEvents(); err == nil {
		err = d.openPipelines()
	}
	if err == nil {
		err = d.openSchedules()
	}
	if err == nil {
		err = d.build()
	}
	if err == nil {
		err = observe.Register(registry, append(d.host.Metrics(), d.ownMetrics()...)...)
	}
	if err == nil && d.Front == nil {
		d.Front, err = NewFront(d.Config.Listen, d.Logger)
	}
	if err == nil {
		d.door, err = OpenDoor(s, DoorConfig{API: c.Config.API, Console: c.Config.Console, Topics: c.Config.Topics,
			Policy: d.policy, Events: d.events, Board: d.events.Board, Rooms: c.Rooms, Owner: d.owner(),
			Version: c.Version, Logger: c.Logger, Waits: d.metrics.Waits})
		if err != nil {
			err = &DoorError{err}
		}
	}
	if err != nil {
		d.programs.close()
		if d.host != nil {
			d.host.Close()
		}
		if d.events != nil {
			d.endEvents(err)
		}
		return nil, err
	}
	return d, nil
}

// openPipelines makes the pipelines of the configuration.
func (d *Daemon) openPipelines() error {
	ctx, cancel := context.WithTimeout(context.Background(), openPipelinesFor)
	defer cancel()
	var err error
	d.host, err = NewHost(ctx, HostConfig{
		Pipelines: d.Config.Pipelines, Store: d.store, StoreURL: d.Config.Store, Open: d.Open, Logger: d.Logger,
		Owner:   d.owner(),
		Version: d.Version, Policy: d.policy, Redact: d.Redact, Drain: d.Config.Drain, Observer: d.metrics,
		Events: d.events, Tracer: d.Tracer,
	})
	if err == nil {
		err = d.host.Prepare(ctx)
	}
	return err
}

// openPipelinesFor bounds how long pipelines may take to ask their servers at the start.
const openPipelinesFor = 2 * time.Minute

// build makes what serves the topics, and the dispatcher above it.
func (d *Daemon) build() error {
	var err error
	if d.limits, err = newLimits(d.Config.Limits, d.store); err != nil {
		return err
	}
	if err = d.openState(); err != nil {
		return err
	}
	var topics []dispatch.Topic
	for _, t := range d.Config.Topics {
		c, err := newServedTopic(t, d.programs, d.limits)
		if err != nil {
			return fmt.Errorf("topic %s: %w", t.Name, err)
		}
		d.served = append(d.served, c)
		topics = append(topics, c.dispatched())
	}
	topics = d.Tracer.Topics(append(topics, d.host.Topics()...), objectives(d.Config.Topics))
	declared := newDeclaring(d.store, d.owner(), d.Logger)
	d.dispatcher, err = dispatch.New(declared, dispatch.Config{
		Topics: topics, Idle: true, Policy: d.policy, Owner: d.owner(), Logger: d.Logger, Observer: d.metrics,
		Events: d.events, Version: d.Version, DrainTimeout: d.Config.Drain, Results: d.host.Results(),
	})
	return err
}

// objectives are how long messages should take, by topic.
func objectives(topics []config.Topic) func(topic string) time.Duration {
	by := map[string]time.Duration{}
	for i := range topics {
		by[topics[i].Name] = topics[i].Objective
	}
	return func(topic string) time.Duration { return by[topic] }
}

// owner is the holder of the leases: node, host and process.
func (d *Daemon) owner() string { return Owner(d.Config.Node, d.began) }

// Owner names this process in leases: node, if it is not the host, host, process, and
// when it began. A container that is started again has the same host and number; without
// the time its deaths would be taken for one.
func Owner(node string, began time.Time) string {
	host, _ := os.Hostname()
	host = cmp.Or(host, "localhost")
	if node != "" && node != host {
		host = node + "/" + host
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), strconv.FormatInt(began.UnixMilli(), 36))
}

// Address is where health and metrics are served; empty if nowhere.
func (d *Daemon) Address() string { return d.Front.Address() }

// Run carries out messages until ctx ends, and drains then. It may be called once.
func (d *Daemon) Run(ctx context.Context) error {
	defer d.programs.close()
	for _, c := range d.served {
		c.start(ctx, d.store, func() { d.dispatcher.Wake(c.topic.Name) })
	}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var broken error
	var failing sync.Once
	hosted := make(chan error, 1)
	go func() {
		hosted <- d.host.Run(ctx, func(err error) { failing.Do(func() { broken = unasked(err) }); fail(err) })
	}()
	beside, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var wg sync.WaitGroup
	d.Front.serve(d.handler())
	d.metrics.AskReady(func() bool { return len(d.problems()) == 0 })
	wg.Go(func() { d.watchDepth(beside) })
	wg.Go(func() { watch.Spill(beside, d.store, d.metrics, d.Logger) })
	wg.Go(func() { tellSlowKeys(beside, d.metrics, d.Logger) })
	wg.Go(func() { d.keepAlive(beside) })
	if d.scheduler != nil {
		wg.Go(func() { d.scheduler.Run(beside) })
	}
	if d.limitState != nil {
		wg.Go(func() { d.limits.watch(beside, d.limitState, d.Logger) })
		wg.Go(func() { d.policy.watch(beside, d.overrides) })
	}
	reloads, stopReloads := context.WithCancel(ctx)
	wg.Go(func() { d.watchConfig(reloads) })
	wg.Go(func() { d.watchHealth(reloads) })
	stopping := context.AfterFunc(ctx, d.notifier.Stopping)
	d.notifier.Ready(d.status())
	_ = d.events.SystemStarted(runtimeComponent, nil)
	d.Logger.Info("started", "topics", len(d.served), "pipelines", len(d.Config.Pipelines), "listen", d.Address(),
		observe.NodeID, d.owner())
	err := d.dispatcher.Run(ctx)
	fail(err)
	err = errors.Join(unasked(err), <-hosted)
	d.host.Drained()
	if broken != nil {
		err = broken
	}
	stopping()
	d.door.Close()
	stopReloads()
	cancel()
	for _, c := range d.served {
		c.close()
	}
	d.Front.Close()
	wg.Wait()
	d.endEvents(err)
	return err
}

// unasked is the error of a run that an operator did not ask to drain.
func unasked(err error) error {
	if errors.Is(err, dispatch.ErrAsked) {
		return nil
	}
	return err
}

// keepAlive tells the service manager that the runtime still answers.
func (d *Daemon) keepAlive(ctx context.Context) {
	every := d.notifier.Watchdog() / 2
	for every > 0 && store.Sleep(ctx, every) == nil {
		d.dispatcher.Snapshot()
		d.notifier.Alive()
	}
}

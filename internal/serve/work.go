package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/handler/pipe"
	"github.com/pawl-dev/pawl/observe/trace"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// WorkConfig says what a worker does. Topics, and one of Exec and Pipe, are
// required.
type WorkConfig struct {
	Topics []string
	// Exec is a command that is started for every delivery, Pipe one that is
	// started Concurrency times and kept.
	Exec, Pipe  string
	Concurrency int
	// InFlight is how many deliveries a kept program holds; 0 follows from what it
	// shows.
	InFlight int
	Lease    time.Duration
	// Declared states settings of the topics; the newest declaration counts.
	Declared store.Declaration
	// PerSecond bounds how many messages are claimed in a second; 0 does not.
	PerSecond  float64
	UntilEmpty bool
	Drain      time.Duration
	// Policy decides about failures, under what operators set in the state; nil is [Matrix].
	Policy  *policy.Matrix
	Owner   string
	Version string
	// Stdout and Stderr get what the programs write there.
	Stdout, Stderr io.Writer
	Logger         *slog.Logger
	Tracer         *trace.Tracer // nil: none
}

// Worked counts what a worker did.
type Worked struct {
	Acked          int64   `json:"acked"`
	Retried        int64   `json:"retried"`
	Dead           int64   `json:"dead"`
	Released       int64   `json:"released"`
	Lost           int64   `json:"lost"` // deliveries whose lease was lost
	Restarts       int     `json:"restarts"`
	StaleVerdicts  int     `json:"stale_verdicts"`
	BadVerdicts    int     `json:"bad_verdicts"`
	StrayLines     int     `json:"stray_lines"` // on stdout, beside verdicts
	ElapsedSeconds float64 `json:"elapsed_seconds"`
}

// ErrNeverReady ends a worker whose program never starts successfully.
var ErrNeverReady = pipe.ErrNeverReady

// worker is the parts of a worker.
type worker struct {
	config   WorkConfig
	policy   *livePolicy
	programs *programs
	pipe     *pipe.Pipe
}

// Work carries out messages by programs until ctx ends, or the topics are empty
// if that is wanted. It returns what was done, in any case.
func Work(ctx context.Context, s store.Store, c WorkConfig) (Worked, error) {
	began := time.Now()
	programs, err := newPrograms(c.Stdout, c.Stderr, c.Logger)
	if err != nil {
		return Worked{}, err
	}
	defer programs.close()
	if c.Policy == nil {
		if c.Policy, err = Matrix(); err != nil {
			return Worked{}, err
		}
	}
	overrides, err := openOverrides(s, c.Owner, c.Logger)
	if err != nil {
		return Worked{}, err
	}
	w := &worker{config: c, policy: newLivePolicy(c.Policy, c.Logger), programs: programs}
	if overrides != nil {
		ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // also while it drains
		defer cancel()
		go w.policy.watch(ctx, overrides)
	}
	d, err := w.dispatcher(s)
	if err != nil {
		return Worked{}, err
	}
	if c.Pipe != "" {
		w.pipe = programs.pipe(pipe.Config{
			Command: c.Pipe, Children: c.Concurrency, InFlight: c.InFlight, Rank: ranks(ctx, s, c.Topics...),
		}, c.Topics...)
		w.pipe.OnUp(func() { d.Wake() })
	}
	err = w.run(ctx, d)
	if w.pipe != nil {
		w.pipe.Close()
	}
	return w.account(d, time.Since(began)), err
}

// dispatcher builds the runtime. With kept programs, how much is carried out at once is
// for the pipe to say. Otherwise the dispatcher counts by topic; where there are several,
// together they may not exceed the concurrency either.
func (w *worker) dispatcher(s store.Store) (*dispatch.Dispatcher, error) {
	c := &w.config
	limit := dispatch.LimitConfig{Name: "limit", Rate: c.PerSecond}
	handler, slots, room := w.programs.exec(c.Exec), c.Concurrency, (*dispatch.Room)(nil)
	if c.Pipe != "" {
		handler = pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error { return w.pipe.Handle(ctx, d) })
		slots = pipeSlots(c.Concurrency)
		room = &dispatch.Room{Lanes: func() (lanes, worth, run int) { return w.pipe.Room() }}
	} else if len(c.Topics) > 1 {
		limit.Concurrency = c.Concurrency
	}
	var limits []*dispatch.Limiter
	if limit.Rate > 0 || limit.Concurrency > 0 {
		l, err := dispatch.NewLimiter(limit)
		if err != nil {
			return nil, err
		}
		limits = append(limits, l)
	}
	topics := make([]dispatch.Topic, len(c.Topics))
	for i, name := range c.Topics {
		settings := c.Declared
		settings.Name = name
		topics[i] = dispatch.Topic{Name: name, Handler: handler, Concurrency: slots, Lease: c.Lease, Settings: settings,
			Room: room, Limits: limits}
	}
	return dispatch.New(newDeclaring(s, c.Owner, c.Logger), dispatch.Config{
		Topics: c.Tracer.Topics(topics, nil), Policy: w.policy, Owner: c.Owner, Version: c.Version, Logger: c.Logger,
		DrainTimeout: c.Drain, UntilEmpty: c.UntilEmpty,
	})
}

// run runs the dispatcher until something ends it.
func (w *worker) run(ctx context.Context, d *dispatch.Dispatcher) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var broken <-chan struct{}
	if w.pipe != nil {
		broken = w.pipe.Broken()
	}
	go func() {
		select {
		case <-broken:
			cancel(w.pipe.Err())
		case <-ctx.Done():
		}
	}()
	err := d.Run(ctx)
	if cause := context.Cause(ctx); err == nil && errors.Is(cause, ErrNeverReady) {
		return cause
	}
	if w.config.UntilEmpty { // whoever asked for the drain, they are not empty
		return err
	}
	return unasked(err)
}

func (w *worker) account(d *dispatch.Dispatcher, took time.Duration) Worked {
	done := Worked{ElapsedSeconds: took.Seconds()}
	for _, t := range d.Snapshot().Topics {
		done.Acked += t.Acked
		done.Retried += t.Retried
		done.Dead += t.Dead
		done.Released += t.Released
		done.Lost += t.Lost
	}
	if w.pipe != nil {
		s := w.pipe.Stats()
		done.Restarts, done.StaleVerdicts, done.BadVerdicts, done.StrayLines = s.Restarts, s.Stale, s.Bad, s.Stray
	}
	return done
}

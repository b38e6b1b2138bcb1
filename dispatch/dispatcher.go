package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/statesync"
	"github.com/pawl-dev/pawl/store"
)

// Errors of Run.
var (
	// ErrKilled: [Dispatcher.Kill] ended it.
	ErrKilled = errors.New("dispatcher was killed")
	// ErrAsked: an operator asked for the drain, by pawl workers drain or the console.
	ErrAsked = errors.New("an operator asked this worker to drain")
	// ErrStuck: the drain is over, but handlers did not return.
	ErrStuck = errors.New("handlers did not return")
	// ErrRan: Run was called before.
	ErrRan = errors.New("dispatcher ran already")
)

// Dispatcher carries out the messages of some topics. Make one with [New] and
// call [Dispatcher.Run] once. Its methods are safe for concurrent use.
type Dispatcher struct {
	*engine
	*events
	*throttle
	*runner
	*settler
	*claimer
	*watcher
}

// engine is the state that the parts of a dispatcher share: its settings, and the deliveries in hand.
type engine struct {
	store  store.Store
	cfg    Config
	topics []*topic
	byName map[string]*topic
	began  time.Time
	// inState has the retries that operators have set; nil: the store has no state.
	inState *statesync.Topic[policy.Retries]
	base    context.Context // below the contexts of handlers: values, never ended

	io         context.Context // of calls of the store; ends with Kill, and when Run is over
	stopIO     context.CancelFunc
	claimIO    context.Context // of calls of Claim; ends soon after the drain began
	stopClaims context.CancelFunc
	end        chan struct{} // closed when Run should drain, because of itself
	ended      sync.Once
	stop       chan struct{} // closed when the drain is over, or by Kill
	wg         sync.WaitGroup

	claimKick, settleKick, watchKick, beatKick, drainKick chan struct{}

	// mu guards everything below, what the parts say that it guards, and the state of topics
	// and runs. It is never held across I/O, a wait or a call of a handler, policy or observer.
	mu        sync.Mutex
	phase     phase
	fatal     error // ends Run
	claims    []*claim
	held      int          // messages claimed and not yet settled
	unsettled int          // of these, carried out
	bytes     int          // of runs with something left
	closed    map[lane]int // lanes in which a handler outlived its lease
	zombies   int
	weight    int // of the suspects in hand
}

// phase is how far Run has come.
type phase uint8

const (
	idle phase = iota
	working
	draining
	stopped
)

// New returns a dispatcher over s. It reports everything that is wrong with c at
// once, and does no I/O.
func New(s store.Store, c Config) (*Dispatcher, error) {
	c, err := c.complete()
	if s == nil {
		err = errors.Join(errors.New("no store"), err)
	}
	_, hasTopics := store.As[store.Topics](s)
	if c.UntilEmpty && !hasTopics {
		err = errors.Join(err, errors.New("the store cannot tell when a topic is empty"))
	}
	d := assemble(&engine{
		store: s, cfg: c, byName: map[string]*topic{}, closed: map[lane]int{},
		claimKick: kick(), settleKick: kick(), watchKick: kick(), beatKick: kick(), drainKick: kick(),
		end: make(chan struct{}), stop: make(chan struct{}),
	})
	for _, t := range c.Topics {
		if s != nil && t.Event == (policy.Event{}) {
			t.Retries = RetriesOn(s, t.Retries)
		}
		if t.Handler != nil && err == nil {
			if t.Handler = pawl.Chain(t.Handler, c.Middleware...); t.Handler == nil {
				err = errors.New("a middleware makes a nil handler")
			}
		}
		d.byName[t.Name] = &topic{Topic: t, of: d, ageing: store.DefaultAgeing, opens: never, gap: firstGap}
		d.topics = append(d.topics, d.byName[t.Name])
		if t.Settings.States() && !hasTopics {
			err = errors.Join(err, errors.New("the store has no settings of topics"))
		}
	}
	d.inState = OpenRetries(s, d.cfg.Logger)
	d.solitary, _ = store.As[store.Suspected](s)
	d.newDownstream()
	d.guardObserver()
	fallback, wrong := policy.NewMatrix(c.Rand)
	d.fallback = fallback
	if err = errors.Join(err, wrong); err != nil {
		return nil, err
	}
	return d, nil
}

// assemble makes the parts of a dispatcher, each with those that it asks.
func assemble(e *engine) *Dispatcher {
	d := &Dispatcher{e, &events{e}, &throttle{engine: e}, &runner{engine: e}, &settler{engine: e}, &claimer{engine: e},
		&watcher{engine: e, watchAt: never, beatAt: never}}
	d.throttle.runner, d.throttle.settler = d.runner, d.settler
	d.throttle.claimer, d.throttle.watcher = d.claimer, d.watcher
	d.runner.events, d.runner.throttle, d.runner.settler = d.events, d.throttle, d.settler
	d.settler.events, d.settler.throttle, d.settler.runner = d.events, d.throttle, d.runner
	d.settler.claimer, d.settler.watcher = d.claimer, d.watcher
	d.claimer.runner, d.claimer.settler, d.claimer.watcher = d.runner, d.settler, d.watcher
	d.watcher.throttle, d.watcher.runner = d.throttle, d.runner
	d.watcher.settler, d.watcher.claimer = d.settler, d.claimer
	return d
}

// kick wakes a loop through a channel of capacity one: if a signal is pending already,
// that is enough.
func kick() chan struct{} { return make(chan struct{}, 1) }

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// now is the time since Run began, on the monotonic clock.
func (d *engine) now() time.Duration { return time.Since(d.began) }

// Run carries out messages until ctx ends; then it drains: it claims and starts
// nothing more, gives back deliveries that it has not started, and waits for running
// handlers up to the drain timeout. Then it ends their contexts with pawl.ErrDrain and
// releases their deliveries. It returns nil after that, or [ErrStuck] if a handler did
// not return even then. If an operator asked for the drain, it returns [ErrAsked].
//
// It returns an error at once if the store denies access, has another schema or
// settings that conflict with those stated. While the store is not reachable it waits.
func (d *Dispatcher) Run(ctx context.Context) error {
	if err := d.start(ctx); err != nil {
		return err
	}
	defer d.finish()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	d.register()
	d.wg.Go(d.watchRetries)
	for range claimers {
		d.wg.Go(d.claimLoop)
	}
	d.wg.Go(d.settleLoop)
	d.wg.Go(d.watchLoop)
	d.wg.Go(d.beatLoop)
	if w, ok := store.As[store.Waker](d.store); ok {
		d.wg.Go(func() { d.listenLoop(w) })
	}
	select {
	case <-ctx.Done():
	case <-d.end:
	case <-d.stop:
	}
	return d.drain()
}

// start makes sure that Run runs once.
func (d *Dispatcher) start(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase != idle {
		return ErrRan
	}
	d.phase = working
	d.began = time.Now()
	for _, t := range d.topics {
		for _, l := range t.Limits {
			l.use(d, true)
		}
	}
	d.base = context.WithoutCancel(ctx)
	d.io, d.stopIO = context.WithCancel(d.base)
	d.claimIO, d.stopClaims = context.WithCancel(d.io)
	return nil
}

// finish ends every goroutine of the dispatcher, except those in which a handler has
// not returned.
func (d *Dispatcher) finish() {
	killed := !d.shut(stopped)
	d.stopIO()
	d.wg.Wait()
	if d.registered != nil && !killed {
		d.registered.withdraw()
	}
	for _, t := range d.topics {
		for _, l := range t.Limits {
			l.use(d, false)
		}
	}
}

// shut ends the loops and the workers that wait; it reports whether they had not been ended before.
func (d *Dispatcher) shut(p phase) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase == stopped {
		return false
	}
	d.phase = p
	close(d.stop)
	for _, t := range d.topics {
		for _, w := range t.idle {
			signal(w.wake)
		}
		t.idle = nil
	}
	return true
}

// Kill ends Run at once, as the end of the process would: nothing is settled or
// released, the leases end by themselves. The contexts of handlers end with
// pawl.ErrDrain; Run does not wait for them.
func (d *Dispatcher) Kill() {
	d.shut(stopped)
	d.mu.Lock()
	calls := d.calls()
	stopIO := d.stopIO
	d.mu.Unlock()
	if stopIO != nil {
		stopIO()
	}
	for _, c := range calls {
		c.end(pawl.ErrDrain)
	}
}

// calls returns the calls of handlers that run, zombies excepted. The caller
// holds mu.
func (d *Dispatcher) calls() []*call {
	var calls []*call
	for _, c := range d.claims {
		for i := range c.runs {
			if r := &c.runs[i]; r.call != nil {
				calls = append(calls, r.call)
			}
		}
	}
	return calls
}

// Wake tells the dispatcher that this process has appended something to one of its
// topics, so that it need not wait for its next poll. Without topics it means all.
func (d *claimer) Wake(topics ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.phase != working {
		return
	}
	now := d.engine.now()
	for _, t := range d.topics {
		if len(topics) == 0 || slices.Contains(topics, t.Name) {
			t.pace.wake(now)
		}
	}
	signal(d.claimKick)
}

// Pause stops claims of a topic in every process; see store.Topics.
func (d *Dispatcher) Pause(ctx context.Context, topic string, length time.Duration, by, reason string) error {
	ts, ok := store.As[store.Topics](d.store)
	if !ok {
		return &store.Error{Op: "pause", Code: store.ErrUnsupported}
	}
	return ts.Pause(ctx, topic, length, by, reason)
}

// Resume ends a pause.
func (d *Dispatcher) Resume(ctx context.Context, topic string) error {
	ts, ok := store.As[store.Topics](d.store)
	if !ok {
		return &store.Error{Op: "resume", Code: store.ErrUnsupported}
	}
	if err := ts.Resume(ctx, topic); err != nil {
		return err
	}
	d.Wake(topic)
	return nil
}

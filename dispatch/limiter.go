package dispatch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/internal/limit"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// LimitConfig is the configuration of a [Limiter]. A field that is zero bounds nothing.
type LimitConfig struct {
	// Name is that of the downstream, for metrics, logs and `pawl explain`.
	Name string
	// By returns the key of a delivery; each key has a limit of its own: a host, a
	// tenant, a chat. nil is one limit for all. It must be quick, and gets a copy.
	By func(*pawl.Delivery) string
	// Rate is how many handlers begin a second; 0 is no bound. Burst is how many of these
	// may begin at once after a pause; 0 is a tenth of a second's worth. Rate,
	// Concurrency, Adaptive or Size bounds something: a limit without a bound is refused.
	Rate  float64
	Burst int
	// Shared, if not nil, makes the rate one for all processes over a store; with By, that of each
	// key. The store is written to once for each key and each tenth of a second's worth of
	// calls. While it does not answer, nothing begins. With By, all processes stay away when a
	// downstream says how long to do so ([pawl.Throttled]).
	Shared store.Shared
	// Concurrency is how many handlers run at once; 0 is no bound.
	Concurrency int
	// Adaptive learns how many handlers may run at once, up to that many, from what
	// they return: an error that is throttled ([pawl.Throttled]), or states
	// policy.Timeout or policy.Shortage, stands for a downstream that has too much
	// to do. 0 learns nothing.
	Adaptive int
	// AIMD, if not nil, learns it in steps, up to Adaptive.
	AIMD *AIMD
	// Size, if not nil, returns how many handlers may run at once on average, for a program that
	// knows that. It is called often, must be quick and must not call the limiter. Call
	// [Limiter.Set] when its answer has changed. While it panics, nothing begins.
	Size func() float64
}

// AIMD learns how many calls a downstream takes at once by additive increase and
// multiplicative decrease: it grows by Step after After calls that were served in a
// row, and at a refusal it is cut by Factor, at once and once per flight: a refused
// call that began before the last cut changes nothing. Up to nine tenths of where it
// was cut, and from that place on, it grows with every call that is served; it also
// does so before the first cut, unless After is stated. It is never below 1 nor above
// the limit's Adaptive, and does not grow while it is not used up.
type AIMD struct {
	Start  int     // at the beginning; 0 is 10
	After  int     // calls in a row; 0 is as many as may run at once, though at least 24 to 40 at a size of 4 or more
	Step   int     // 0 is 1
	Factor float64 // above 0 and below 1; 0 is 0.5
}

func (a *AIMD) validate(most int) error {
	var faults pawl.Faults
	faults.If(most == 0, "AIMD needs adaptive, the largest size")
	faults.If(a.Start < 0 || a.After < 0 || a.Step < 0,
		"AIMD starts at %d and adds %d after %d; none of them is below 0", a.Start, a.Step,
		a.After)
	faults.If(a.Factor < 0 || a.Factor >= 1, "AIMD cuts to %v of what it was; that is above 0 and below 1", a.Factor)
	return faults.Err()
}

// window returns a function that makes windows of at most that size.
func (a *AIMD) window(most int) func() limit.Window {
	c := limit.StepsConfig{
		Min: 1, Max: float64(most), Start: float64(cmp.Or(a.Start, 10)), Step: float64(cmp.Or(a.Step, 1)),
		After: a.After, Factor: cmp.Or(a.Factor, 0.5),
	}
	return func() limit.Window { return limit.NewSteps(c) }
}

// Limiter bounds the calls to a downstream. Several topics and dispatchers of a process may
// use it; the limit is for them together. A delivery that may not begin waits for a moment,
// without a slot; if its wait would be longer, it is released until its turn, so that others
// can go first. A Limiter is safe for concurrent use.
type Limiter struct {
	name   string
	by     func(*pawl.Delivery) string
	config LimitConfig // as it was made
	inner  *limit.Limiter
	shared *sharedRate  // nil: the rate, if there is one, is that of the process
	held   atomic.Int64 // messages that it kept from beginning
	caught atomic.Int64 // the minute in which it logged that a function of its configuration panicked

	mu      sync.Mutex
	users   map[*Dispatcher]bool
	waiting []*topic             // that it kept from beginning, see before
	doors   map[string]*keyQueue // of Acquire, by key
	changed chan struct{}        // closed when something has ended or changed; nil: nobody waits for that
}

// NewLimiter makes a limiter. It reports everything that is wrong with c.
func NewLimiter(c LimitConfig) (*Limiter, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	if c.Rate == 0 && c.Concurrency == 0 && c.Adaptive == 0 && c.Size == nil {
		return nil, fmt.Errorf("limit %q: it bounds nothing; state a rate, a concurrency or adaptive", c.Name)
	}
	l := &Limiter{name: c.Name, by: c.By, config: c, users: map[*Dispatcher]bool{}}
	inner := c.inner()
	switch {
	case c.Size != nil:
		inner.Window = func() limit.Window { return limit.Stated(l.size) }
	case c.AIMD != nil:
		inner.Window = c.AIMD.window(c.Adaptive)
	case c.Adaptive > 0:
		inner.Window = func() limit.Window { return limit.NewAIMD(leastWindow, float64(c.Adaptive)) }
	}
	if c.Shared != nil {
		l.shared = newSharedRate(&c, func() { l.notifyChange(nil) })
	}
	l.inner = limit.New(inner)
	return l, nil
}

// inner is the limit of each bucket, as it is stated.
func (c *LimitConfig) inner() limit.Config {
	return limit.Config{Rate: c.Rate, Burst: c.Burst, Concurrency: c.Concurrency, Keyed: c.By != nil}
}

// validate reports everything that is wrong.
func (c *LimitConfig) validate() error {
	var faults pawl.Faults
	faults.If(pawl.ValidTopic(c.Name) != nil, "a limit needs a name, of the form of a topic's")
	if c.Shared != nil {
		faults.Add(checkShared(c.Rate, c.Burst))
	}
	faults.If(c.Adaptive < 0 || c.Adaptive > MaxSlots, "adaptive up to %d; it goes from 1 to %d", c.Adaptive, MaxSlots)
	faults.If((c.Adaptive > 0 || c.AIMD != nil) && c.Size != nil, "adaptive, and a size of its own: one of them counts")
	if c.AIMD != nil {
		faults.Add(c.AIMD.validate(c.Adaptive))
	}
	inner := c.inner()
	faults.Add(inner.Validate())
	if err := faults.Err(); err != nil {
		return fmt.Errorf("limit %q: %w", c.Name, err)
	}
	return nil
}

// admit begins a call if it may begin; otherwise wait is how long until it is
// worth asking again, 0 for when a call has ended.
func (l *Limiter) admit(key string) (wait time.Duration, ok bool) {
	if wait, ok = l.inner.Admit(key); !ok || l.shared == nil {
		return wait, ok
	}
	if wait, ok = l.shared.take(key); !ok {
		l.inner.Undo(key)
	}
	return wait, ok
}

// undo takes back an admit.
func (l *Limiter) undo(key string) {
	l.inner.Undo(key)
	if l.shared != nil {
		l.shared.giveBack(key)
	}
}

// ended ends a call.
func (l *Limiter) ended(key string, took time.Duration, o limit.Outcome, after time.Duration) {
	l.inner.Ended(key, took, o, after)
	if l.shared != nil && l.by != nil && o == limit.Refused && after > 0 {
		l.shared.hold(key, min(after, maxHold))
	}
}

// Hold lets nothing of a key begin for that long, [pawl.MaxPause] at most: here at once, and
// in the other processes as soon as the store has recorded it. It is for downstreams that
// ask for a pause by other means than the error of a call. The limiter must be Shared.
func (l *Limiter) Hold(key string, length time.Duration) error {
	if l.shared == nil {
		return fmt.Errorf("limit %q: a hold for all processes needs a shared rate", l.name)
	}
	if length <= 0 {
		return fmt.Errorf("limit %q: a hold of %v; it is above 0", l.name, length)
	}
	l.shared.hold(key, min(length, pawl.MaxPause))
	return nil
}

// room is how many calls may begin soon, by a limit for all, and if none may, in
// how long it is worth asking again; 0 is when a call has ended.
func (l *Limiter) room() (n int, wait time.Duration) {
	n, wait = l.inner.Room("", soon)
	if l.shared != nil && n > 0 {
		var m int
		m, wait = l.shared.room(soon)
		n = min(n, m)
	}
	if n > 0 || wait <= 0 {
		return n, 0
	}
	return 0, max(wait-soon, time.Millisecond)
}

// before returns the topic that goes before t, if there is one: topics that share a
// limit for all take turns. The one that has been kept from beginning for longest goes
// first, as long as it has something to begin; so there is always one that goes first.
// The caller holds the lock of its dispatcher; the messages of topics of other dispatchers
// are unknown.
func (l *Limiter) before(t *topic) (first *topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(o *topic) bool { return o.of == t.of && o != t && o.best() == nil })
	for _, o := range l.waiting {
		if o.of != t.of || o == t {
			continue // what others have kept is guarded by their own lock
		}
		older := t.keptSince == 0 || o.keptSince < t.keptSince
		if older && (first == nil || o.keptSince < first.keptSince) {
			first = o
		}
	}
	return first
}

// keep adds a topic to those that wait, and leave removes it.
func (l *Limiter) keep(t *topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.waiting, t) {
		l.waiting = append(l.waiting, t)
	}
}

func (l *Limiter) leave(t *topic) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = slices.DeleteFunc(l.waiting, func(o *topic) bool { return o == t })
}

// use registers a dispatcher that is woken when the limiter allows more.
func (l *Limiter) use(d *Dispatcher, yes bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if yes {
		l.users[d] = true
		return
	}
	delete(l.users, d)
	l.waiting = slices.DeleteFunc(l.waiting, func(o *topic) bool { return o.of == d })
}

// changed wakes the callers of Acquire, and the dispatchers that use the limiter except
// one, to ask again.
func (l *Limiter) notifyChange(but *Dispatcher) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
	for d := range l.users {
		if d != but {
			d.limitsMoved.Store(true)
			signal(d.watchKick)
		}
	}
}

// leastWindow lets a call begin now and then, even if all are refused.
const leastWindow = 0.1

// Name returns the name of the downstream.
func (l *Limiter) Name() string { return l.name }

// Check returns the error that Set would return, and changes nothing.
func (l *Limiter) Check(rate float64, burst, concurrency int) error {
	c := l.config
	c.Rate, c.Burst, c.Concurrency = rate, burst, concurrency
	return c.validate()
}

// Set changes rate, burst and concurrency while the limiter is used. With an error,
// it changes nothing.
func (l *Limiter) Set(rate float64, burst, concurrency int) error {
	if err := l.Check(rate, burst, concurrency); err != nil {
		return err
	}
	if l.shared != nil {
		l.shared.set(rate, burst)
	}
	// It keeps what is not a number.
	l.inner.Set(limit.Config{Rate: rate, Burst: burst, Concurrency: concurrency})
	l.notifyChange(nil)
	return nil
}

// LimitSnapshot is the state of a limiter.
type LimitSnapshot struct {
	Name        string
	Rate        float64
	Shared      bool // the rate is that of all processes
	Keyed       bool // it has a By: the limit holds for each bucket separately
	Concurrency int
	// Buckets are those of By, Running the handlers in all of them, and Window how
	// many adaptive ones allow together; 0: they are not adaptive.
	Buckets, Running int
	Window           float64
	// Least is the smallest window of a bucket that keeps something from beginning, or
	// of the only one; 0: there is none.
	Least float64
	// HeldBack counts the messages that it held back when it was their turn, and
	// Limited is when that last was; zero: never.
	HeldBack int64
	Limited  time.Time
}

// Snapshot returns the state of the limiter.
func (l *Limiter) Snapshot() LimitSnapshot {
	s := l.inner.State()
	return LimitSnapshot{
		Name: l.name, Rate: s.Config.Rate, Shared: l.shared != nil, Keyed: l.by != nil,
		Concurrency: s.Config.Concurrency,
		Buckets:     s.Buckets, Running: s.InFlight, Window: s.Size, Least: s.Least,
		HeldBack: l.held.Load(), Limited: s.Limited,
	}
}

// key is the bucket of a delivery. It is called with the lock held: a By that panics counts as "".
func (l *Limiter) key(d *pawl.Delivery) (key string) {
	defer func() { l.logPanic("By", recover()) }()
	return l.by(d)
}

// size is called with the lock held, too: a Size that panics is 0.
func (l *Limiter) size() (n float64) {
	defer func() { l.logPanic("Size", recover()) }()
	return l.config.Size()
}

// logPanic logs, at most once a minute, the panic of a function of the configuration; nil is none.
func (l *Limiter) logPanic(function string, v any) {
	if v == nil {
		return
	}
	if now := 1 + time.Now().Unix()/60; l.caught.Swap(now) == now {
		return
	}
	err := recovered(v)
	go func() { // locks are held
		l.mu.Lock()
		users := slices.Collect(maps.Keys(l.users))
		l.mu.Unlock()
		for _, d := range users {
			d.cfg.Logger.Error("a function of a limit panicked", "limit", l.name, "function", function, "error", err)
		}
	}()
}

// outcomeOf returns the state of the downstream that an error shows, and when it wants
// to be asked again. cause is why the handler's context ended, if it did.
func outcomeOf(err, cause error) (o limit.Outcome, after time.Duration) {
	if endless(err) {
		return limit.Failed, 0
	}
	defer func() {
		if recover() != nil { // methods of the error
			o, after = limit.Failed, 0
		}
	}()
	switch {
	case err == nil:
		return limit.Served, 0
	case cause == pawl.ErrDeadline:
		return limit.Refused, 0
	}
	f := pawl.Describe(err)
	switch f.Class {
	case pawl.ClassThrottled:
		return limit.Refused, f.After
	case pawl.ClassPermanent: // it answered, if only with a failure
		return limit.Served, 0
	}
	if policy.FactsOf(err)&(policy.Timeout|policy.Shortage) != 0 {
		return limit.Refused, 0
	}
	return limit.Failed, 0
}

package limit

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// Config says what a [Limiter] allows, in each of its buckets. What is zero is
// not bounded.
type Config struct {
	Rate        float64 // calls begun a second
	Burst       int     // of these, how many may begin at once after a pause; 0 is a tenth of a second's worth
	Concurrency int     // calls under way
	Keyed       bool    // buckets stand for parts of the downstream
	// Window makes the window of a bucket; nil is none.
	Window func() Window
}

// Validate reports everything that is wrong with c.
func (c *Config) Validate() error {
	var faults pawl.Faults
	faults.If(c.Rate < 0 || c.Rate > 1e6 || math.IsNaN(c.Rate) || c.Rate > 0 && c.Rate < 1e-4,
		"rate %v; it goes from one in some hours to a million a second", c.Rate)
	faults.If(c.Burst < 0 || c.Burst > 1e6, "burst %d; it goes from 1 to a million", c.Burst)
	faults.If(c.Burst > 0 && c.Rate == 0, "a burst needs a rate")
	faults.If(c.Concurrency < 0 || c.Concurrency > 1e6, "concurrency %d; it goes from 1 to a million", c.Concurrency)
	return faults.Err()
}

// bounds reports whether it bounds anything.
func (c *Config) bounds() bool { return c.Rate > 0 || c.Concurrency > 0 || c.Window != nil }

// interval is the time between two calls at the rate.
func (c *Config) interval() time.Duration {
	if c.Rate == 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / c.Rate)
}

// burst is how much earlier than in turn a call may begin.
func (c *Config) burst() time.Duration {
	n := c.Burst
	if n == 0 {
		n = int(c.Rate / 10)
	}
	return time.Duration(max(n-1, 0)) * c.interval()
}

// Limiter is safe for concurrent use.
type Limiter struct {
	mu      sync.Mutex
	config  Config
	buckets map[string]*bucket
	sweepAt int // sweep when there are so many
	refused time.Time
}

// New returns a limiter; c is valid.
func New(c Config) *Limiter {
	return &Limiter{config: c, buckets: map[string]*bucket{}, sweepAt: firstSweep}
}

// firstSweep is how many buckets there may be before idle ones are looked for.
const firstSweep = 1024

// bucket returns the bucket of a key. The caller holds mu.
func (l *Limiter) bucket(key string, now time.Time) *bucket {
	if b := l.buckets[key]; b != nil {
		return b
	}
	if len(l.buckets) >= l.sweepAt {
		maps.DeleteFunc(l.buckets, func(_ string, b *bucket) bool { return b.idle(now) })
		l.sweepAt = max(2*len(l.buckets), firstSweep)
	}
	b := &bucket{}
	if l.config.Window != nil {
		b.window = l.config.Window()
	}
	l.buckets[key] = b
	return b
}

// Admit begins a call if it may begin. Otherwise wait is how long until it is
// worth asking again; 0 when that is once another call has ended.
func (l *Limiter) Admit(key string) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	b := l.bucket(key, now)
	wait, ok = b.admit(&l.config, now)
	if b.kept = !ok; !ok {
		b.keptAt, l.refused = now, now
	}
	return wait, ok
}

// Undo reverts an Admit: the call does not begin.
func (l *Limiter) Undo(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bucket(key, time.Now()).undo(&l.config)
}

// Ended ends a call that Admit began. One that was refused may say after how long to
// come back: until then nothing begins. A window knows better than a single refusal; it
// is closed by three refusals in a row.
func (l *Limiter) Ended(key string, took time.Duration, o Outcome, after time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	b := l.bucket(key, now)
	b.ended(now, took, o)
	if o == Refused && l.config.bounds() && (l.config.Keyed && b.window == nil || b.inRow >= 3) {
		b.closed = Later(b.closed, now.Add(min(after, maxClosed)))
	}
}

// maxClosed is how long a downstream is left alone, at most, before it is tried
// again.
const maxClosed = time.Minute

// Away returns when a call that would have to wait should come back: in turn with the
// others that were sent away. The id tells calls apart.
func (l *Limiter) Away(key, id string, wait time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return l.bucket(key, now).away(&l.config, id, now, wait)
}

// Room is how many calls may begin within a while; if none may, wait is how long
// until that is over by itself, and 0 when a call has to end first.
func (l *Limiter) Room(key string, while time.Duration) (n int, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return l.bucket(key, now).room(&l.config, now, while)
}

// Set changes what is allowed; c is valid. Windows go on with what they learned,
// and nothing waits for what was allowed before.
func (l *Limiter) Set(c Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Window, c.Keyed = l.config.Window, l.config.Keyed
	l.config = c
	now := time.Now()
	for _, b := range l.buckets {
		b.closed, b.later = time.Time{}, time.Time{}
		clear(b.turns)
		if soonest := now.Add(c.interval()); b.next.After(soonest) {
			b.next = soonest
		}
	}
}

// State is the state of a limiter.
type State struct {
	Config   Config
	Buckets  int
	InFlight int
	Size     float64 // of the windows together; 0: there are none
	// Least is the size of the smallest window of a bucket that keeps calls waiting, or
	// of the only one; 0: there is none. In the sum it would be hidden by the others.
	Least float64
	// Limited is when a call last could not begin; zero: never.
	Limited time.Time
}

// State returns the state of the limiter.
func (l *Limiter) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, now := State{Config: l.config, Buckets: len(l.buckets), Limited: l.refused}, time.Now()
	for _, b := range l.buckets {
		s.InFlight += b.inFlight
		if b.window == nil {
			continue
		}
		size := b.window.Size()
		s.Size += size
		if (!l.config.Keyed || b.keeping(now)) && (s.Least == 0 || size < s.Least) {
			s.Least = size
		}
	}
	return s
}

package spill

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Diverting says which messages the dead-letter route is offered before the
// fallback store. What the fallback store does not take is offered it in any case.
type Diverting uint8

// The ways. Only what the primary store itself refused to take now is diverted
// first: where it does not answer at all, its dead-letter topic does not, either.
const (
	// DivertUnkeyed diverts messages without a key first. Those with a key go to the
	// fallback store, which keeps their order and brings them back by itself.
	DivertUnkeyed Diverting = iota
	// DivertAll also diverts messages with a key. They become dead letters: later
	// messages of their key overtake them, and they only come back by a replay.
	DivertAll
	// DivertLast diverts only what the fallback store did not take.
	DivertLast
)

// Diverter is a store that takes messages as dead letters, durably, when it does
// not take them as messages: all of them, or it returns an error.
type Diverter interface {
	Divert(ctx context.Context, msgs []pawl.Message, why error) error
}

// Config has the options of a store; the zero value has the defaults.
type Config struct {
	// Prefix begins the names of topics in the fallback store; empty is "spill.".
	Prefix string
	// Divert is the dead-letter route: it stores messages durably as dead letters,
	// all of them, or returns an error; nil: that of the primary store, if it is a
	// [Diverter]. Those of one key come in their order. It is called concurrently.
	Divert func(ctx context.Context, msgs []pawl.Message, why error) error
	// When says when it is used first.
	When Diverting
	// Pipelined lets calls with the same key be on their way to the primary store at
	// once, one overtaking the other if the first fails while both are on their way.
	// Calls of which one returned before the other began keep their order. Without
	// it calls of one key follow one another.
	Pipelined bool
	// PrimaryTimeout bounds a call of the primary store, and of Divert where that is used
	// first; 0 is 40 seconds. Of a caller's own deadline the primary store gets three
	// quarters, and Divert half of what is left.
	PrimaryTimeout time.Duration
	// Watch is for how long this process may not know that another one has spilled;
	// 0 is one second. Negative: this process alone uses the fallback store.
	Watch time.Duration
	// MaxRetries is how often a row may fail before it is a dead letter; 0 is 10.
	MaxRetries int
	// RetryFirst is the wait after a row's first failure; 0 is one minute. It doubles
	// up to RetryMax; 0 is one hour.
	RetryFirst, RetryMax time.Duration
	// ProbeFirst is the wait before a topic that is down is tried again; 0 is one
	// second. It doubles up to ProbeMax; 0 is 15 seconds.
	ProbeFirst, ProbeMax time.Duration
	// Poll is how often rows are looked for that another process left; 0 is 5 seconds.
	Poll time.Duration
	// Lease is for how long the compensator claims rows; 0 is two minutes.
	Lease time.Duration
	// Batch is how many rows are brought back at once; 0 is 500.
	Batch int
	// CloseTimeout bounds the wait for the compensator's last call; 0 is 10 seconds.
	CloseTimeout time.Duration
	// Owner names this process for people, at most 256 bytes.
	Owner string
	// Observer receives what happens; may be nil.
	Observer Observer
	// Rand gives numbers in [0, 1) for jitter; nil is math/rand/v2.
	Rand func() float64
}

// withDefaults fills in what is not set, and reports what cannot be.
func (c Config) withDefaults() (Config, error) {
	c.Prefix = cmp.Or(c.Prefix, "spill.")
	c.PrimaryTimeout = cmp.Or(c.PrimaryTimeout, 40*time.Second)
	c.Watch = cmp.Or(c.Watch, time.Second)
	c.MaxRetries = cmp.Or(c.MaxRetries, 10)
	c.RetryFirst, c.RetryMax = cmp.Or(c.RetryFirst, time.Minute), cmp.Or(c.RetryMax, time.Hour)
	c.ProbeFirst, c.ProbeMax = cmp.Or(c.ProbeFirst, time.Second), cmp.Or(c.ProbeMax, 15*time.Second)
	c.Poll = cmp.Or(c.Poll, 5*time.Second)
	c.Lease = cmp.Or(c.Lease, 2*time.Minute)
	c.Batch = cmp.Or(c.Batch, 500)
	c.CloseTimeout = cmp.Or(c.CloseTimeout, 10*time.Second)
	if c.Observer == nil {
		c.Observer = silent{}
	}
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	var faults pawl.Faults
	begins := pawl.ValidTopic(c.Prefix) == nil && len(c.Prefix) <= pawl.MaxTopic/2
	faults.If(!begins, "prefix %q does not begin a topic", c.Prefix)
	for name, d := range map[string]time.Duration{
		"PrimaryTimeout": c.PrimaryTimeout, "RetryFirst": c.RetryFirst, "RetryMax": c.RetryMax,
		"ProbeFirst": c.ProbeFirst,
		"ProbeMax":   c.ProbeMax, "Poll": c.Poll, "Lease": c.Lease, "CloseTimeout": c.CloseTimeout,
	} {
		faults.If(d < 0 || d > store.MaxLease, "%s is %v", name, d)
	}
	faults.If(c.MaxRetries < 1 || c.Batch < 1 || c.Batch > store.MaxBatch || c.When > DivertLast,
		"%d retries, batches of %d, diverting %d", c.MaxRetries, c.Batch, c.When)
	if err := faults.Err(); err != nil {
		return c, &store.Error{Op: "spill", Code: store.ErrInvalid, Err: err}
	}
	return c, nil
}

package dispatch

import (
	"cmp"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// Defaults of a [Config].
const (
	DefaultConcurrency  = 32
	DefaultLease        = 30 * time.Second
	DefaultDrainTimeout = 30 * time.Second
	DefaultMaxBytes     = 64 << 20
	DefaultMaxZombies   = 16
	DefaultPollMin      = 5 * time.Millisecond
	DefaultPollMax      = 500 * time.Millisecond
)

// Config is the configuration of a [Dispatcher]. Only Topics is required.
type Config struct {
	// Topics are the topics to carry out, with their handlers. Nothing else is claimed.
	Topics []Topic
	// Idle allows Topics to be empty, for a process that has other dispatchers.
	Idle bool
	// Policy decides about failures; nil is policy.NewMatrix without rules.
	Policy policy.Policy
	// Middleware wraps the handler of every topic that is not a batch handler;
	// the first one is the outermost.
	Middleware []pawl.Middleware
	// Owner names the holder of the leases, for people: host and process. Empty is a
	// random name.
	Owner string
	// Version is that of the program, for `pawl workers ls`; it may be empty.
	Version string
	// Results are topics that the program reads from beginning to end ([store.Results]). They are registered, so that
	// no tool reports a missing worker for them.
	Results []string
	// Unregistered keeps the dispatcher out of the list of workers. Otherwise, where the store keeps entries, it
	// registers itself with its topics, slots and limits, so that `pawl workers ls`, `pawl explain` and `pawl doctor`
	// know of it. That is a write every 5 s.
	Unregistered bool
	// Logger gets what an operator should know; nil is slog.Default. A delivery that
	// succeeds is not logged.
	Logger *slog.Logger
	// Observer receives figures; nil is none. [Observers] makes one of several.
	Observer Observer
	// Events receives an event for each step of a delivery; nil is none, and costs
	// nothing.
	Events EventSink
	// DrainTimeout is how long a drain waits for running handlers before it ends
	// their contexts with pawl.ErrDrain; 0 is [DefaultDrainTimeout].
	DrainTimeout time.Duration
	// MaxBytes bounds the size of all messages held at once; 0 is [DefaultMaxBytes]. A
	// single larger message is held all the same.
	MaxBytes int
	// MaxZombies is how many handlers may outlive their deadline before
	// [Dispatcher.Ready] reports it; 0 is [DefaultMaxZombies].
	MaxZombies int
	// PollMin and PollMax bound the pause between claims while there is nothing
	// to do: it starts at PollMin and doubles up to PollMax. Wake-ups from the
	// store and from this process cut it short. 0 is [DefaultPollMin] and
	// [DefaultPollMax].
	PollMin, PollMax time.Duration
	// UntilEmpty ends Run as soon as nothing is waiting, delayed or leased in any
	// of the topics. The store must implement store.Topics.
	UntilEmpty bool
	// Rand spreads delays; it returns at least 0 and less than 1 and is called
	// concurrently. nil is math/rand/v2.
	Rand func() float64
}

// Topic is a topic to be carried out.
type Topic struct {
	Name string
	// Handler does the work, or Batch does; exactly one of them is set. The
	// context of a batch ends with the first deadline in it, with a drain, and
	// when all of its leases are lost. A batch may hold several messages of one
	// lane, in their order; those behind a failed one of their lane are delivered
	// again, even if their verdict is nil.
	Handler pawl.Handler
	Batch   pawl.BatchHandler
	// Concurrency is how many handlers, or batches, run at once; 0 is
	// [DefaultConcurrency].
	Concurrency int
	// Reserved are slots, of these, that only messages of priority
	// pawl.MaxPriority may use; 0: none.
	Reserved int
	// BatchSize is how many deliveries a batch handler gets at most; 0 is 100.
	BatchSize int
	// BatchWait is how long the first delivery of a batch that is not full waits here
	// for more; with 0 it does not wait. A delivery never waits for longer than a quarter
	// of its deadline. BatchWait is for messages that are independent of each other: while
	// a message with a key waits, the later ones of its lane wait, too.
	BatchWait time.Duration
	// Lease is how long a lease is given for, and extended by; 0 is
	// [DefaultLease]. The work of a process that died moves on after that long.
	Lease time.Duration
	// PollMax bounds the pause between claims of this topic in place of [Config.PollMax]; 0: that one.
	PollMax time.Duration
	// Room, if not nil, says how much a handler that keeps a queue accepts, of Concurrency at most. Topics may share
	// one. Call [Dispatcher.Wake] when there is room again.
	Room *Room
	// Limits bound the calls of handlers to their downstreams. Each must allow a call
	// before it begins. A batch counts as one call, and its limits have no By.
	Limits []*Limiter
	// Emits are the topics to which the handler emits, all of them. While one of them is
	// full ([store.Topic.MaxWaiting]), nothing is claimed here, so that the sources of a chain
	// wait for its end; running handlers go on. A topic that leads back here, through emits
	// of other topics of this dispatcher, is left out: it would wait for itself.
	Emits []string
	// Event says what the handler does, for the policy's matrix, unless its error
	// says it ([policy.At]).
	Event policy.Event
	// Retries says for how long failures of this topic are retried, if that differs from
	// the policy's rules. If neither it nor Event is set, that is policy.DefaultRetryFor,
	// unless the store cannot delay retries. The setting of an operator (`pawl topics set`)
	// overrides it, and that of a message (RetryFor) overrides both.
	Retries policy.Retries
	// Policy, if not nil, decides about failures of this topic in place of [Config.Policy]: for a topic with limits of
	// its own. It usually calls Config.Policy and changes a part of the decision.
	Policy policy.Policy
	// Settings are declared when Run starts, if anything but the name is set: they hold
	// from then on, for all processes. Name may be left out.
	Settings store.Declaration
}

// Room says how much a handler with a queue of its own accepts. Lanes returns how many lanes that is, including those
// that it has; how many of them must be free to be worth a claim; and how many messages each should have. It must not
// call the dispatcher.
type Room struct {
	Lanes func() (lanes, worth, run int)
}

const (
	defaultBatch = 100
	maxBatchWait = time.Minute
	minLease     = 20 * time.Millisecond // with a shorter one, scheduling delays exceed the time to renew a lease
)

// MaxSlots is the largest concurrency of a topic.
const MaxSlots = 100_000

// complete fills in the defaults and reports everything that is wrong.
func (c Config) complete() (Config, error) {
	c.Owner = cmp.Or(c.Owner, "dispatcher-"+pawl.NewID()[24:])
	c.DrainTimeout = cmp.Or(c.DrainTimeout, DefaultDrainTimeout)
	c.MaxBytes = cmp.Or(c.MaxBytes, DefaultMaxBytes)
	c.MaxZombies = cmp.Or(c.MaxZombies, DefaultMaxZombies)
	c.PollMin = cmp.Or(c.PollMin, min(DefaultPollMin, cmp.Or(c.PollMax, DefaultPollMin)))
	c.PollMax = cmp.Or(c.PollMax, max(DefaultPollMax, c.PollMin))
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = slog.New(guardedLog{c.Logger.Handler()})
	if c.Rand == nil {
		c.Rand = rand.Float64
	}
	var faults pawl.Faults
	if c.Policy == nil {
		m, err := policy.NewMatrix(c.Rand)
		c.Policy = m
		faults.Add(err)
	}
	for name, d := range map[string]time.Duration{"drain timeout": c.DrainTimeout, "poll min": c.PollMin} {
		faults.If(d < 0, "%s is negative: %v", name, d)
	}
	faults.If(c.PollMax < c.PollMin, "poll max %v is less than poll min %v", c.PollMax, c.PollMin)
	for i, m := range c.Middleware {
		faults.If(m == nil, "middleware %d is nil", i)
	}
	faults.If(c.MaxBytes < 0 || c.MaxZombies < 0, "max bytes %d or max zombies %d is negative", c.MaxBytes,
		c.MaxZombies)
	err := backend.AdmitClaim(nil, store.Lease{For: DefaultLease, Owner: c.Owner})
	faults.If(err != nil, "owner: %w", err)
	faults.If(len(c.Topics) == 0 && !c.Idle, "no topics")
	seen := map[string]bool{}
	c.Topics = slices.Clone(c.Topics)
	for i := range c.Topics {
		t := &c.Topics[i]
		err := t.complete()
		if err == nil && seen[t.Name] {
			err = errors.New("is given twice")
		}
		faults.If(err != nil, "topic %q: %w", t.Name, err)
		seen[t.Name] = true
	}
	return c, faults.Err()
}

func (t *Topic) complete() error {
	var faults pawl.Faults
	t.Concurrency = cmp.Or(t.Concurrency, DefaultConcurrency)
	t.Lease = cmp.Or(t.Lease, DefaultLease)
	faults.Add(pawl.ValidTopic(t.Name))
	faults.If((t.Handler == nil) == (t.Batch == nil), "exactly one of handler and batch handler is needed")
	one, isFunc := t.Handler.(pawl.HandlerFunc)
	faults.If(isFunc && one == nil, "the handler is a nil function")
	many, isFunc := t.Batch.(pawl.BatchHandlerFunc)
	faults.If(isFunc && many == nil, "the batch handler is a nil function")
	faults.If(t.Batch == nil && (t.BatchSize != 0 || t.BatchWait != 0), "a batch size or wait needs a batch handler")
	if t.Batch != nil {
		t.BatchSize = cmp.Or(t.BatchSize, defaultBatch)
	}
	faults.If(t.BatchSize < 0 || t.BatchSize > store.MaxBatch, "batch size %d; it goes from 1 to %d", t.BatchSize,
		store.MaxBatch)
	faults.Add(t.Retries.Validate())
	faults.If(t.BatchWait < 0 || t.BatchWait > maxBatchWait, "batch wait of %v; it goes from 0 to %v", t.BatchWait,
		maxBatchWait)
	faults.If(t.Concurrency < 1 || t.Concurrency > MaxSlots, "concurrency %d; it goes from 1 to %d", t.Concurrency,
		MaxSlots)
	faults.If(t.Reserved < 0 || t.Reserved >= max(t.Concurrency, 1),
		"%d slots reserved of %d; at least one must be left", t.Reserved, t.Concurrency)
	for i, l := range t.Limits {
		faults.If(slices.Contains(t.Limits[:i], l), "a limit is given twice")
		if faults.If(l == nil, "a limit is nil"); l != nil {
			faults.If(l.by != nil && t.Batch != nil, "limit %q has keys, but a batch is one call", l.name)
		}
	}
	for _, name := range t.Emits {
		err := pawl.ValidTopic(name)
		faults.If(err != nil, "emits to %q: %w", name, err)
	}
	faults.If(t.PollMax < 0, "poll max %v is negative", t.PollMax)
	faults.If(t.Lease < minLease || t.Lease > store.MaxLease, "lease of %v; it goes from %v to %v", t.Lease, minLease,
		store.MaxLease)
	if t.Settings.Name = cmp.Or(t.Settings.Name, t.Name); t.Settings.Name != t.Name {
		faults.If(true, "settings are those of topic %q", t.Settings.Name)
	} else if err := t.Settings.Validate(); faults.Err() == nil {
		faults.If(err != nil, "settings: %w", err)
	}
	return faults.Err()
}

package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// call is one call of a handler, and its context. A handler that never looks at
// its context pays nothing for it: the context of the standard library, with
// its channel and its children, is made when it is first asked for.
type call struct {
	d        *Dispatcher
	delivery *pawl.Delivery // nil: a batch, or it has returned
	hard     time.Duration
	limit    time.Duration // the time limit of a message, if that ends it
	started  time.Duration
	claimed  time.Duration // when the claim was sent
	critical bool
	keys     []string          // of its limiters' buckets
	trace    map[string]string // the header of its trace, if it has one; not of a batch, nor of a quick handler's

	exits int // how often its goroutine was ended: by the handler, or by what is told of it

	back atomic.Bool // the handler has returned, and its result is about to be judged

	// Guarded by Dispatcher.mu.
	parts     []part // what it is about
	one       [1]part
	ending    bool          // its context has ended, or is about to
	force     time.Duration // when it is abandoned then
	judged    time.Duration // when it is, although it has returned; 0 until it was spared for that
	abandoned bool          // it did not return in time: its slot is released and its result is ignored
	over      bool          // it has returned

	mu     sync.Mutex
	std    context.Context
	cancel context.CancelCauseFunc
	cause  error // why the context ended; nil while it has not
}

type deliveryKey struct{}

// FromContext returns the delivery of the handler whose context ctx is; nil in a batch
// handler, and for any other context.
func FromContext(ctx context.Context) *pawl.Delivery {
	d, _ := ctx.Value(deliveryKey{}).(*pawl.Delivery)
	return d
}

type claimedKey struct{}

// ClaimedAt returns when the claim was sent that brought the delivery of the handler whose context ctx is, of a batch
// the first one; the zero time for any other context.
func ClaimedAt(ctx context.Context) time.Time {
	t, _ := ctx.Value(claimedKey{}).(time.Time)
	return t
}

// Deadline returns the hard deadline. The context ends a little earlier than
// the store's, so that there is time to settle.
func (c *call) Deadline() (time.Time, bool) { return c.d.began.Add(c.hard), true }

func (c *call) Done() <-chan struct{} { return c.context().Done() }

func (c *call) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return context.Canceled
	}
	return nil
}

// Value finds the delivery and the values of the context that Run was given. Package
// context also finds the underlying context through it, for context.Cause and for
// children.
func (c *call) Value(key any) any {
	switch key {
	case deliveryKey{}:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.delivery
	case claimedKey{}:
		return c.d.began.Add(c.claimed)
	case policy.ContextKey{}:
		return resolver{c}
	}
	return c.context().Value(key)
}

func (c *call) context() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.std == nil {
		c.std, c.cancel = context.WithCancelCause(c.d.base)
		if c.cause != nil {
			c.cancel(c.cause)
		}
	}
	return c.std
}

// end ends the context with a cause; the first one counts.
func (c *call) end(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	c.cause = cause
	if c.std != nil {
		c.cancel(cause)
	}
}

// returned ends the context of a handler that has returned. A context that is retained
// keeps nothing else alive.
func (c *call) returned() {
	c.end(errReturned)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delivery = nil
}

// why returns the cause with which the context ended, or nil.
func (c *call) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
}

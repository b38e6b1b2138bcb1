package observe

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

// Consumer receives events. It is called by one goroutine, with one event after the
// other in the order of their sequence numbers. If it is slow its queue fills, and
// events that do not fit are dropped and counted, as are events for which it returns an
// error or panics.
type Consumer interface {
	Consume(e Envelope) error
}

// ConsumerFunc is a function as a [Consumer].
type ConsumerFunc func(e Envelope) error

// Consume calls f.
func (f ConsumerFunc) Consume(e Envelope) error { return f(e) }

// Tap is a consumer with its name, which is a label of metrics, and the length
// of its queue; 0 is [DefaultQueue].
type Tap struct {
	Name     string
	Queue    int
	Consumer Consumer
}

// DefaultQueue is the length of a queue that a [Tap] does not state.
const DefaultQueue = 4096

// maxQueue keeps a mistyped length from exhausting memory.
const maxQueue = 1 << 20

// ErrBusClosed: the event came after Close.
var ErrBusClosed = errors.New("the event bus is closed")

// Why an event did not reach a consumer, or was refused.
const (
	dropFull     = "full"     // the consumer is too slow
	dropFailed   = "failed"   // the consumer returned an error
	dropPanicked = "panicked" // the consumer panicked
	dropClosed   = "closed"   // the bus was closed before its turn
	dropUnknown  = "unknown"  // the type or the phase is not registered
)

// Bus carries events to consumers. It never delays the work, and loses nothing
// silently: for every consumer, offered = delivered + dropped + lag. A slow or broken
// consumer does not affect the others.
//
// All events of a bus have one order, the same for every consumer: events of a message
// that are emitted one after the other stay in that order.
type Bus struct {
	types   *EventTypes
	metrics *Metrics
	queues  []*queue
	mu      sync.Mutex
	seq     uint64
	closed  bool
}

// NewBus starts a bus for events of these types. What it drops is counted in m.
// Close ends it.
func NewBus(types *EventTypes, m *Metrics, taps ...Tap) (*Bus, error) {
	b := &Bus{types: types, metrics: m}
	var faults pawl.Faults
	most := limits[labelConsumer]
	faults.If(len(taps) > most, "%d event consumers; at most %d", len(taps), most)
	names := map[string]bool{}
	for _, t := range taps {
		faults.If(t.Name == "" || names[t.Name] || t.Consumer == nil || t.Queue < 0 || t.Queue > maxQueue,
			"event consumer %q: it needs a name of its own, a consumer and a queue from 0 to %d", t.Name, maxQueue)
		names[t.Name] = true
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	for _, t := range taps {
		q := newQueue(t, m)
		b.queues = append(b.queues, q)
		m.eventsLag.Store(q.name, q.lag)
		go q.work()
	}
	return b, nil
}

// Emit hands an event to every consumer, and returns at once. ID and Time are filled in
// if they are empty; the phase may be any name that [PhaseOf] knows. An event that is
// not registered is an [ErrUnknownEvent]; that is counted as well, so callers may
// ignore the error.
func (b *Bus) Emit(e Envelope) error {
	if err := b.types.Check(e.Domain, e.Type, e.Phase); err != nil {
		b.metrics.EventRefused(dropUnknown)
		return err
	}
	e.Phase = PhaseOf(e.Phase)
	if e.ID == "" {
		e.ID = pawl.NewID()
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		b.metrics.EventRefused(dropClosed)
		return ErrBusClosed
	}
	b.seq++
	e.Seq = b.seq
	for _, q := range b.queues {
		q.offer(e)
	}
	return nil
}

// Close accepts no more events, and waits until the consumers have received those that
// wait, at most until ctx ends. The rest is dropped and counted, and the error says how
// many. A second Close does the same.
func (b *Bus) Close(ctx context.Context) error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		for _, q := range b.queues {
			close(q.ch)
		}
	}
	b.mu.Unlock()
	var errs []error
	for _, q := range b.queues {
		errs = append(errs, q.end(ctx))
	}
	return errors.Join(errs...)
}

// Flow has the figures of one consumer.
type Flow struct {
	Consumer  string
	Offered   uint64
	Delivered uint64
	Dropped   map[string]uint64 // by reason
	Lag       uint64            // waiting, or in the hands of the consumer
}

// Flows returns the figures of all consumers. Each is exact at one moment.
func (b *Bus) Flows() []Flow {
	flows := make([]Flow, len(b.queues))
	for i, q := range b.queues {
		flows[i] = q.flow()
	}
	return flows
}

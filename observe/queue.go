package observe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"
)

// queue is what lies between the bus and one consumer.
type queue struct {
	name     string
	consumer Consumer
	metrics  *Metrics
	ch       chan Envelope
	done     chan struct{} // closed when the consumer has had its last event

	mu        sync.Mutex
	offered   uint64
	delivered uint64
	dropped   map[string]uint64
}

func newQueue(t Tap, m *Metrics) *queue {
	return &queue{
		name: t.Name, consumer: t.Consumer, metrics: m,
		ch: make(chan Envelope, cmp.Or(t.Queue, DefaultQueue)), done: make(chan struct{}), dropped: map[string]uint64{},
	}
}

// offer puts an event at the end of the queue, or drops it. The caller sees to
// it that nobody else offers meanwhile.
func (q *queue) offer(e Envelope) {
	q.mu.Lock()
	q.offered++
	q.mu.Unlock()
	select {
	case q.ch <- e:
	default:
		q.drop(dropFull)
	}
}

func (q *queue) drop(reason string) {
	q.mu.Lock()
	q.dropped[reason]++
	q.mu.Unlock()
	q.metrics.EventDropped(q.name, reason)
}

// work hands events to the consumer until the bus is closed.
func (q *queue) work() {
	defer close(q.done)
	for e := range q.ch {
		if reason := q.hand(e); reason != "" {
			q.drop(reason)
			continue
		}
		q.mu.Lock()
		q.delivered++
		q.mu.Unlock()
	}
}

// hand gives an event to the consumer, and returns why it was lost.
func (q *queue) hand(e Envelope) (reason string) {
	defer func() {
		if recover() != nil {
			reason = dropPanicked
		}
	}()
	if q.consumer.Consume(e) != nil {
		return dropFailed
	}
	return ""
}

// end waits for the last event. When ctx is over first, it drops what waits.
func (q *queue) end(ctx context.Context) error {
	select {
	case <-q.done:
		return nil
	case <-ctx.Done():
	}
	lost := 0
	for range q.ch {
		q.drop(dropClosed)
		lost++
	}
	return fmt.Errorf("event consumer %q did not finish in time; %d events were dropped: %w", q.name, lost,
		context.Cause(ctx))
}

// lag is how many events the consumer has not had yet.
func (q *queue) lag() float64 { return float64(q.flow().Lag) }

func (q *queue) flow() Flow {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := Flow{Consumer: q.name, Offered: q.offered, Delivered: q.delivered, Dropped: maps.Clone(q.dropped)}
	f.Lag = f.Offered - f.Delivered
	for _, n := range f.Dropped {
		f.Lag -= n
	}
	return f
}

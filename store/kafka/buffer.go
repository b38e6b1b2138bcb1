package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// buffer bounds the records on their way to the brokers. The client's own bound is of no use:
// it blocks a caller in the middle of a call, when a part of its records is in flight and can
// no longer be cancelled. Here a call gets room for all of its records, or none of them is
// sent.
type buffer struct {
	limit int             // bytes
	stop  <-chan struct{} // ends all waiting

	mu    sync.Mutex // never held across a wait
	used  int
	queue []*applicant // the first is served first
}

type applicant struct {
	bytes int
	room  chan struct{} // closed when it has it
}

// errNoRoom is the error of a record that was not sent.
var errNoRoom = errors.New("not sent: what is on its way to the brokers fills the buffer")

// take waits for room. A call that is larger than the buffer gets it when nothing else is on
// its way.
func (b *buffer) take(ctx context.Context, bytes int) error {
	b.mu.Lock()
	if len(b.queue) == 0 && b.fits(bytes) {
		b.used += bytes
		b.mu.Unlock()
		return nil
	}
	a := &applicant{bytes, make(chan struct{})}
	b.queue = append(b.queue, a)
	b.mu.Unlock()
	var why error
	select {
	case <-a.room:
		return nil
	case <-ctx.Done():
		why = ended(ctx)
	case <-b.stop:
		why = kgo.ErrClientClosed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := slices.Index(b.queue, a); at >= 0 {
		b.queue = slices.Delete(b.queue, at, at+1)
	} else { // it got room at this moment, too late
		b.used -= bytes
	}
	b.serve()
	return fmt.Errorf("%w: %w", errNoRoom, why)
}

// ended is why a context is over: the caller's, or our own timeout.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); errors.Is(cause, kgo.ErrRecordTimeout) {
		return cause
	}
	return ctx.Err()
}

func (b *buffer) give(bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= bytes
	b.serve()
}

// serve gives room to those who wait, in their order. The caller holds mu.
func (b *buffer) serve() {
	for len(b.queue) > 0 && b.fits(b.queue[0].bytes) {
		b.used += b.queue[0].bytes
		close(b.queue[0].room)
		b.queue[0] = nil
		b.queue = b.queue[1:]
	}
}

func (b *buffer) fits(bytes int) bool { return b.used == 0 || b.used+bytes <= b.limit }

// recordCost is roughly the memory of a record beside its bytes: it bounds how many small ones
// are on their way.
const recordCost = 100

func weight(r *kgo.Record) int {
	n := recordCost + len(r.Key) + len(r.Value)
	for i := range r.Headers {
		n += len(r.Headers[i].Key) + len(r.Headers[i].Value)
	}
	return n
}

package dispatch

import (
	"context"
	"sync"
	"time"
)

// Acquire waits until a call to the downstream may begin, and begins it. It is for single
// calls of a handler; a limit of its topic is for the handler as a whole. key is the
// bucket, as By would return it; "" if there is one limit for all. Callers for one key are
// served in the order in which they came.
//
// done ends the call and must be called once, with the error of the call or nil. It is
// judged like the error of a handler: [pawl.Throttled], policy.Timeout and policy.Shortage
// mean that the downstream has too much to do, and [pawl.Throttled] also when to come back.
// Further calls of done change nothing.
//
// Without an error the call has begun. Otherwise the error says why ctx ended, and done is
// nil.
func (l *Limiter) Acquire(ctx context.Context, key string) (done func(error), err error) {
	leave, err := l.queue(ctx, key)
	if err != nil {
		return nil, err
	}
	defer leave()
	for held := false; ; held = true {
		moved := l.next()
		wait, ok := l.admit(key)
		if ok {
			return l.begun(key), nil
		}
		if !held {
			l.held.Add(1)
		}
		if err := pause(ctx, wait, moved); err != nil {
			return nil, err
		}
	}
}

// begun makes the function that ends a call.
func (l *Limiter) begun(key string) func(error) {
	began := time.Now()
	var once sync.Once
	return func(err error) {
		once.Do(func() {
			o, after := outcomeOf(err, nil)
			l.ended(key, time.Since(began), o, after)
			l.notifyChange(nil)
		})
	}
}

// pause waits for that long, or, if it is 0, until a call has ended.
func pause(ctx context.Context, wait time.Duration, moved <-chan struct{}) error {
	var timer <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-timer:
	case <-moved:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// keyQueue admits the callers that wait for a key one by one, in the order in which they
// came.
type keyQueue struct {
	turn chan struct{} // holds one while somebody asks
	n    int           // callers waiting at it
}

// queue waits for the caller's turn to ask for a key; leave ends the turn.
func (l *Limiter) queue(ctx context.Context, key string) (leave func(), err error) {
	l.mu.Lock()
	d := l.doors[key]
	if d == nil {
		if l.doors == nil {
			l.doors = map[string]*keyQueue{}
		}
		d = &keyQueue{turn: make(chan struct{}, 1)}
		l.doors[key] = d
	}
	d.n++
	l.mu.Unlock()
	gone := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if d.n--; d.n == 0 {
			delete(l.doors, key)
		}
	}
	select {
	case d.turn <- struct{}{}:
		return func() { <-d.turn; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, context.Cause(ctx)
	}
}

// next is closed when something has ended or changed.
func (l *Limiter) next() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

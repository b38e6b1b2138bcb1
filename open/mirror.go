package open

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/mirror"
)

// Mirror puts a mirror over a store that is open, towards the store that c names. That one
// is opened when it is first needed, and may be unreachable until then: only topics that
// `pawl traffic` was told about go there. One that turns out to be the primary itself is
// refused then. Report is called with problems of copies.
func Mirror(primary store.Store, c Config, report func(error)) (store.Store, error) {
	l := newLazy(c)
	l.same = func(ctx context.Context, s store.Store) (bool, error) { return mirror.Same(ctx, primary, s, "mirror") }
	return mirror.New(primary, l, mirror.Config{Report: report})
}

// lazy is a store that is opened with its first call, and again after a call that
// could not open it.
type lazy struct {
	open func(context.Context) (store.Store, error)
	// whether what was opened is the primary; nil: it is not asked
	same func(context.Context, store.Store) (bool, error)
	turn chan struct{} // holds one token, which is taken while opening
	self error         // it is the primary; whoever has the turn

	mu     sync.Mutex // never held across a wait
	opened store.Store
	closed bool
}

func newLazy(c Config) *lazy {
	l := &lazy{open: func(ctx context.Context) (store.Store, error) { return Open(ctx, c) },
		turn: make(chan struct{}, 1)}
	l.turn <- struct{}{}
	return l
}

// get opens the store if need be.
func (l *lazy) get(ctx context.Context) (store.Store, error) {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return nil, &store.Error{Op: "open the mirrored store", Err: ctx.Err()}
	}
	defer func() { l.turn <- struct{}{} }()
	if s, closed := l.state(); closed {
		return nil, &store.Error{Op: "open the mirrored store", Code: store.ErrClosed}
	} else if s != nil {
		return s, nil
	}
	if l.self != nil {
		return nil, l.self // opening it again makes it no other store
	}
	s, err := l.open(ctx)
	if err == nil {
		s, err = l.other(ctx, s)
	}
	if l.self != nil {
		return nil, err
	}
	if err != nil {
		if !errors.Is(err, store.ErrUnavailable) { // an append may be retried: later it may be there
			err = &store.Error{Op: "open the mirrored store", Code: store.ErrUnavailable, Err: err}
		}
		return nil, err
	}
	if !l.keep(s) {
		return nil, &store.Error{Op: "open the mirrored store", Code: store.ErrClosed, Err: s.Close()}
	}
	return s, nil
}

// other sees that what was opened is not the primary; it closes what it does not return.
func (l *lazy) other(ctx context.Context, s store.Store) (store.Store, error) {
	if l.same == nil {
		return s, nil
	}
	same, err := l.same(ctx, s)
	if same {
		l.self = mirror.ItselfError("open the mirrored store")
		err = l.self
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// keep notes what was opened, unless Close was here meanwhile: it has not seen it.
func (l *lazy) keep(s store.Store) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.opened = s
	}
	return !l.closed
}

func (l *lazy) state() (store.Store, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.opened, l.closed
}

// through calls the store, once it is open.
func through[T any](ctx context.Context, l *lazy, call func(store.Store) (T, error)) (T, error) {
	s, err := l.get(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return call(s)
}

// Append implements [store.Store].
func (l *lazy) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	return through(ctx, l, func(s store.Store) ([]store.Receipt, error) { return s.Append(ctx, batch) })
}

// Claim implements [store.Store].
func (l *lazy) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	return through(ctx, l, func(s store.Store) ([]pawl.Delivery, error) { return s.Claim(ctx, wants, lease) })
}

// Extend implements [store.Store].
func (l *lazy) Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
	return through(ctx, l, func(s store.Store) ([]pawl.Token, error) { return s.Extend(ctx, by, tokens...) })
}

// Settle implements [store.Store].
func (l *lazy) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	return through(ctx, l, func(s store.Store) ([]store.Refusal, error) { return s.Settle(ctx, batch) })
}

// Listen implements [store.Waker]. A store that wakes nobody gives a channel on which
// nothing comes.
func (l *lazy) Listen(ctx context.Context, topics ...string) (<-chan struct{}, error) {
	s, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	if w, ok := store.As[store.Waker](s); ok {
		return w.Listen(ctx, topics...)
	}
	return make(chan struct{}), nil
}

// Leave gives up what this process has of topics, where that is a thing to have.
func (l *lazy) Leave(ctx context.Context, topics ...string) error {
	s, _ := l.state()
	if s == nil {
		return nil
	}
	if k, ok := store.As[interface {
		Leave(ctx context.Context, topics ...string) error
	}](s); ok {
		return k.Leave(ctx, topics...)
	}
	return nil
}

// Close implements [store.Store].
func (l *lazy) Close() error {
	l.mu.Lock()
	s := l.opened
	l.closed = true
	l.mu.Unlock()
	if s == nil {
		return nil
	}
	return s.Close()
}

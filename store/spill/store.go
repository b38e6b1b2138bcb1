package spill

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Store is a store whose Append falls back to another one. Make one with [New].
type Store struct {
	primary, fallback store.Store
	can               store.Capabilities // of the primary store
	inspector         store.Inspector    // of the fallback store
	figures           store.Topics       // of the fallback store
	shared            bool               // other processes may use the fallback store
	cfg               Config

	mu     sync.Mutex // never held across a call of a store or a wait
	turns  map[laneKey]chan struct{}
	topics map[string]*topic
	byRow  map[string]string          // topics by the name that they have in the fallback store
	partly map[string][]store.Receipt // batches of which something was lost, by id
	order  []string                   // the same, oldest first
	blind  int64

	closed atomic.Bool

	// brought is the rows that the primary store took and that are not acked yet, by
	// id: when each was spilled. It is the compensator's alone.
	brought map[string]string

	stop    context.Context // ends with Close
	cancel  context.CancelFunc
	loaded  chan struct{} // closed when the keys that have rows are known
	wake    chan struct{}
	working sync.WaitGroup
	closer  sync.Once
	ended   error // of Close
}

// New returns the store primary with a fallback for messages that primary did not
// certainly accept. It owns both: Close closes them. fallback must keep ids unique,
// lookups, topics, dead letters and delays; [store.ErrUnsupported] if it does not.
//
// The keys that have rows are read from fallback in the background. Until that has
// succeeded, messages with a key wait.
func New(primary, fallback store.Store, cfg Config) (*Store, error) {
	if err := cfg.Check(store.Describe(fallback)); err != nil {
		return nil, err
	}
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if d, ok := store.As[Diverter](primary); ok && cfg.Divert == nil {
		cfg.Divert = d.Divert
	}
	s := &Store{
		primary: primary, fallback: fallback, can: store.Describe(primary).Capabilities, cfg: cfg,
		shared: store.Describe(fallback).Capabilities.Has(store.CanProcesses),
		turns:  map[laneKey]chan struct{}{}, topics: map[string]*topic{}, byRow: map[string]string{},
		partly: map[string][]store.Receipt{}, brought: map[string]string{},
		loaded: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	s.inspector, _ = store.As[store.Inspector](fallback, store.CanLookup)
	s.figures, _ = store.As[store.Topics](fallback)
	s.stop, s.cancel = context.WithCancel(context.Background())
	s.working.Go(s.compensate)
	return s, nil
}

// Unwrap returns the primary store, which implements everything else.
func (s *Store) Unwrap() store.Store { return s.primary }

// Claim implements [store.Store]: it is that of the primary store.
func (s *Store) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	return s.primary.Claim(ctx, wants, lease)
}

// Extend implements [store.Store]: it is that of the primary store.
func (s *Store) Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
	return s.primary.Extend(ctx, by, tokens...)
}

// Close implements [store.Store]. It ends the compensator, waits for its last
// call, and closes both stores. Rows stay where they are.
func (s *Store) Close() error {
	s.closer.Do(func() {
		s.closed.Store(true)
		s.cancel()
		done := make(chan struct{})
		go func() {
			s.working.Wait()
			close(done)
		}()
		late := time.NewTimer(closeTimeout)
		defer late.Stop()
		var err error
		select {
		case <-done:
		case <-late.C:
			err = &store.Error{Op: "close", Code: store.ErrUnavailable, Err: errors.New("the compensator does not end")}
		}
		s.ended = errors.Join(err, s.primary.Close(), s.fallback.Close())
	})
	return s.ended
}

// wakeUp lets the compensator look for rows now.
func (s *Store) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // the last wake-up is still pending
	}
}

package spill

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	cfg               Config
	share             *share

	mu     sync.Mutex // never held across a call of a store or a wait
	lanes  map[laneKey]*lane
	spare  []*lane // not in use
	topics map[string]*health
	dirty  map[laneKey]bool           // latches to be verified
	partly map[string][]store.Receipt // batches of which something was lost, by id
	order  []string                   // the same, oldest first
	since  time.Time                  // when the first latch was set; zero: none is
	count  map[string]*Totals         // by topic
	byRow  map[string]string          // topics by the name that they have in the fallback store

	latched atomic.Int64
	blind   atomic.Int64
	closed  atomic.Bool

	// brought is the rows that the primary store took and that are not acked yet, by
	// id: when each was spilled. verified is when latches were last verified. Both are
	// the compensator's alone.
	brought  map[string]string
	verified time.Time

	stop    context.Context // ends with Close
	cancel  context.CancelFunc
	loaded  chan struct{} // closed when the latches are those of the fallback store
	wake    chan struct{}
	working sync.WaitGroup
	closer  sync.Once
	ended   error // of Close
}

// New returns the store primary with a fallback for messages that primary did not
// certainly accept. It owns both: Close closes them. fallback must keep ids unique,
// lookups, topics, dead letters and delays; [store.ErrUnsupported] if it does not.
//
// Latches are read from fallback in the background. Until that has succeeded,
// messages with a key wait.
func New(primary, fallback store.Store, cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if d, ok := store.As[Diverter](primary); ok && cfg.Divert == nil {
		cfg.Divert = d.Divert
	}
	can := store.Describe(fallback).Capabilities
	for _, need := range []store.Capability{store.CanUnique, store.CanLookup, store.CanTopics, store.CanDeadLetters,
		store.CanDelay} {
		if !can.Has(need) {
			return nil, &store.Error{Op: "spill", Code: store.ErrUnsupported,
				Err: fmt.Errorf("the fallback store lacks %s", need)}
		}
	}
	s := &Store{
		primary: primary, fallback: fallback, can: store.Describe(primary).Capabilities, cfg: cfg,
		lanes: map[laneKey]*lane{}, topics: map[string]*health{}, dirty: map[laneKey]bool{},
		partly: map[string][]store.Receipt{},
		count:  map[string]*Totals{}, byRow: map[string]string{}, brought: map[string]string{},
		loaded: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	s.inspector, _ = store.As[store.Inspector](fallback, store.CanLookup)
	s.figures, _ = store.As[store.Topics](fallback)
	s.stop, s.cancel = context.WithCancel(context.Background())
	s.share = &share{watch: cfg.Watch, stop: s.stop, key: shareKey(cfg.Prefix) + pawl.NewID(),
		prefix: shareKey(cfg.Prefix), owner: cfg.Owner}
	if entries, ok := store.As[store.Shared](fallback); ok && can.Has(store.CanProcesses) && cfg.Watch > 0 {
		s.share.entries = entries
		s.working.Go(s.watchOthers)
	}
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
		late := time.NewTimer(s.cfg.CloseTimeout)
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

// noteActive tells the observer when the first latch is set, and when the last one
// has ended. Store.mu is locked.
func (s *Store) noteActive() {
	switch on := s.latched.Load() > 0; {
	case on && s.since.IsZero():
		s.since = time.Now()
	case !on && !s.since.IsZero():
		s.since = time.Time{}
	default:
		return
	}
	s.cfg.Observer.Active(s.since)
}

// rowTopic is the name of a topic in the fallback store, for a topic with rows.
func (s *Store) rowTopic(topic string) string {
	name := topicOf(s.cfg.Prefix, topic)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byRow[name] = topic
	s.health(topic).rows = true
	return name
}

// ours reports whether a topic of the fallback store is one of rows.
func (s *Store) ours(name string) bool { return strings.HasPrefix(name, s.cfg.Prefix) }

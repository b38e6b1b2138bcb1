// Package memory is the contract of package store in its shortest form: the reference
// for the other backends, and a store for tests and for work that may die with its
// process. Nothing survives the process.
package memory

import (
	"bytes"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/bound"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// Config has the options of a store; the zero value is the usual one.
type Config struct {
	// Now is the store's clock, for tests; nil is time.Now.
	Now func() time.Time
}

// Store keeps messages in memory. Make one with [New].
type Store struct {
	*core
	*inspector
	*registry
	*side
}

// core carries messages, under one lock.
type core struct {
	now         func() time.Time
	description store.Description

	mu        sync.Mutex // never held across a wait
	closed    bool
	seq       int64 // of messages and lanes
	topics    map[string]*topic
	messages  map[string]*message // by id: live, dead and retained
	lanes     map[int64]*lane     // by id: leased or closed
	due       laneHeap            // leased or closed lanes, by until
	uniques   map[uniqueKey]unique
	outcomes  map[string]outcome // by batch id
	answered  []answered         // the same, oldest first
	deaths    int64
	listeners map[chan struct{}]map[string]bool
	alarm     *time.Timer
	alarmAt   time.Time
	retained  []*message // acked, oldest first
	entries   map[string]store.Entry
	revision  int64 // of the entries as a whole
	marks     marks
	meter     bound.Meter
}

// topic is the settings, lanes and figures of a topic.
type topic struct {
	store.Topic
	pause    *store.Pause
	keyed    map[string]*lane // lanes by key
	ready    laneHeap         // lanes with work that nobody holds, by rank
	deadKeys map[string]int   // dead letters by key, for parking
	totals   store.TopicStats // only the totals and deaths are used
}

// message is a message and what happened to it.
type message struct {
	store.Record
	seq     int64
	visible time.Time // from when it could be claimed, its lane permitting
	lane    *lane     // nil: dead or retained
	death   int64     // the order of dying
	forget  time.Time // of a retained one
}

type uniqueKey struct{ scope, key string }

type unique struct {
	id    string
	while bool      // while the message lives, or until it is claimed
	until time.Time // otherwise; zero: for ever
}

// outcome is what a batch came to, for its repetition.
type outcome struct {
	receipts []store.Receipt
	refusals []store.Refusal
}

type answered struct {
	batch string
	at    time.Time
}

// memoryOfBatches is how long a repeated batch gets its first outcome.
const memoryOfBatches = 2 * time.Hour

// New returns an empty store.
func New(c Config) *Store {
	if c.Now == nil {
		c.Now = time.Now
	}
	s := &core{
		now:         c.Now,
		description: Description(),
		topics:      map[string]*topic{},
		messages:    map[string]*message{},
		lanes:       map[int64]*lane{},
		uniques:     map[uniqueKey]unique{},
		outcomes:    map[string]outcome{},
		listeners:   map[chan struct{}]map[string]bool{},
		entries:     map[string]store.Entry{},
		marks:       marks{scopes: map[string]map[string]store.Marked{}},
	}
	return &Store{s, &inspector{s}, &registry{s}, &side{s}}
}

// enter locks the store for one call and lets everything due happen. The
// caller unlocks unless there is an error.
func (s *core) enter(ctx context.Context, op string) (time.Time, error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, &store.Error{Op: op, Err: err}
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return time.Time{}, &store.Error{Op: op, Code: store.ErrClosed}
	}
	now := s.now()
	s.sweep(now)
	return now, nil
}

// Append implements [store.Store].
func (s *core) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts, err := backend.Admit(batch)
	if err != nil {
		return nil, err
	}
	now, err := s.enter(ctx, "append")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if first, ok := s.outcomes[batch.ID]; ok {
		return first.receipts, nil
	}
	done, err := s.meter.Admit(ctx, s.look(now), batch.Items, receipts)
	if err != nil {
		return nil, err
	}
	for i, m := range batch.Items {
		if receipts[i].Err == nil {
			receipts[i].DuplicateOf = s.append(now, receipts[i].ID, m)
		}
	}
	done(receipts)
	s.remember(now, batch.ID, outcome{receipts: receipts})
	s.setAlarm(now)
	return receipts, nil
}

// append stores one message, unless it is there; then it returns the id of what
// is there.
func (s *core) append(now time.Time, id string, m pawl.Message) (duplicateOf string) {
	t := s.topic(m.Topic)
	m.ID = id
	if s.find(now, id) != nil {
		t.totals.Duplicates++
		return id
	}
	if first := s.takeUnique(now, &m); first != "" {
		t.totals.Duplicates++
		return first
	}
	t.totals.Appended++
	r := &message{Record: store.Record{Message: own(m), EnqueuedAt: now, Reason: store.CauseAppended}}
	s.messages[id] = r
	s.place(t, r, now.Add(m.Delay), now)
	return ""
}

// own is a deep copy of m: stored messages do not change with those of a caller or a
// handler.
func own(m pawl.Message) pawl.Message {
	m.Body, m.Key, m.Headers = bytes.Clone(m.Body), bytes.Clone(m.Key), maps.Clone(m.Headers)
	return m
}

// find returns the message with that id, unless its retention has ended.
func (s *core) find(now time.Time, id string) *message {
	m := s.messages[id]
	if m != nil && m.State == store.Acked && !m.forget.After(now) {
		delete(s.messages, id)
		return nil
	}
	return m
}

// takeUnique takes the message's unique key, or returns who has it.
func (s *core) takeUnique(now time.Time, m *pawl.Message) (first string) {
	if m.Unique.Key == "" {
		return ""
	}
	k := keyOf(m)
	if u, taken := s.uniques[k]; taken && (u.while || u.until.IsZero() || u.until.After(now)) {
		return u.id
	}
	u := unique{id: m.ID, while: m.Unique.For <= 0}
	if m.Unique.For > 0 && m.Unique.For < pawl.MaxDelay {
		u.until = now.Add(m.Unique.For)
	}
	s.uniques[k] = u
	return ""
}

// freeUnique gives up a unique key that was taken while the message lives.
func (s *core) freeUnique(m *pawl.Message) {
	if k := keyOf(m); s.uniques[k].while && s.uniques[k].id == m.ID {
		delete(s.uniques, k)
	}
}

func keyOf(m *pawl.Message) uniqueKey { return uniqueKey{uniqueScope(m), m.Unique.Key} }

// uniqueScope tells scopes that are named from those of topics.
func uniqueScope(m *pawl.Message) string {
	if m.Unique.Scope == "" {
		return "topic " + m.Topic
	}
	return "scope " + m.Unique.Scope
}

func (s *core) remember(now time.Time, batch string, o outcome) {
	if batch == "" {
		return
	}
	for len(s.answered) > 0 && now.Sub(s.answered[0].at) > memoryOfBatches {
		delete(s.outcomes, s.answered[0].batch)
		s.answered = s.answered[1:]
	}
	s.outcomes[batch] = o
	s.answered = append(s.answered, answered{batch, now})
}

// topic returns the topic, created with default settings if need be.
func (s *core) topic(name string) *topic {
	t := s.topics[name]
	if t == nil {
		t = &topic{Topic: store.NewTopic(name), keyed: map[string]*lane{}, deadKeys: map[string]int{}}
		s.topics[name] = t
	}
	return t
}

// Close implements [store.Store]. What the store held is gone.
func (s *core) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.alarm != nil {
		s.alarm.Stop()
	}
	return nil
}

// Describe implements [store.Describer].
func (s *core) Describe() store.Description { return s.description }

// Description is what this backend keeps.
func Description() store.Description {
	capabilities := sqlstore.Capabilities(map[store.Capability]string{
		store.CanExclusive:   "within its process",
		store.CanDeadline:    "within its process",
		store.CanDeadLetters: "die with the process",
		store.CanResolve:     "dies with the process",
		store.CanState:       "dies with the process",
		store.CanMarks:       "die with the process",
	})
	capabilities[store.CanSurvive] = store.Support{Note: "dies with the process"}
	capabilities[store.CanProcesses] = store.Support{Note: "one process only"}
	capabilities[store.CanAnyProcess] = store.Support{Note: "one process only"}
	capabilities[store.CanAttempts] = store.Support{Note: "die with the process"}
	capabilities[store.CanTxAppend] = store.Support{Note: "there is no transaction to join"}
	return store.Description{
		Name: "memory", URL: "memory:", Durability: "none: everything dies with the process",
		Capabilities: capabilities,
	}
}

package store

import (
	"context"
	"time"
)

// Order says how the messages of a topic form lanes.
type Order string

// The orders.
const (
	OrderKey  Order = "key"  // messages with the same key: the default
	OrderNone Order = "none" // every message by itself
)

// Defaults of a topic.
const (
	DefaultDeadline = 5 * time.Minute
	DefaultAgeing   = 2 * time.Minute
)

// Topic is the settings of a topic. They are kept in the store, so that all processes
// share them.
type Topic struct {
	Name string
	// Order makes the lanes. It changes only while the topic is empty (dead
	// letters do not count).
	Order Order
	// Deadline bounds a lease, extensions included.
	Deadline time.Duration
	// Ageing is the wait that is worth one point of priority. A change concerns
	// messages appended afterwards.
	Ageing time.Duration
	// Park sends what follows a dead letter in its lane to the dead letters.
	Park bool
	// Tail sends a retried message of a shared lane to the tail, which it joins when
	// the retry is due. It changes only while the topic is empty, and does not go with
	// Park. A store without [CanDelay] refuses it, with [ErrUnsupported].
	Tail bool
	// Retain keeps acked messages for that long, for explanations; 0 keeps none.
	Retain time.Duration
	// MaxWaiting is how many messages may wait, delayed ones included, until an append to
	// the topic is refused with a [TopicFullError]; 0 is no bound. Their number is an
	// estimate: a figure that is at most a second old, and the messages that this process
	// has appended since. Only appends are refused: not the messages that an ack emits, nor
	// those that come back by a retry, a release, a rescue or a replay. A change takes
	// effect within two seconds, in every process.
	MaxWaiting int64
	// Version counts changes, from 1. 0: the topic was created by an append and
	// nobody has declared its settings yet.
	Version int64
}

// Declaration is what a process states about a topic. A zero field states
// nothing.
type Declaration struct {
	Name       string         // of the topic
	Order      Order          // [Topic.Order]; of a new topic [OrderKey]
	Deadline   time.Duration  // [Topic.Deadline]; of a new topic [DefaultDeadline]
	Ageing     time.Duration  // [Topic.Ageing]; of a new topic [DefaultAgeing]
	Park       *bool          // [Topic.Park]; of a new topic false
	Tail       *bool          // [Topic.Tail]; of a new topic false
	Retain     *time.Duration // [Topic.Retain]; of a new topic 0: acked messages are gone
	MaxWaiting *int64         // [Topic.MaxWaiting]; of a new topic 0: no bound
}

// Pause says why a topic is paused, and until when.
type Pause struct {
	Since  time.Time
	Until  time.Time // zero: until it is resumed
	By     string
	Reason string
}

// Topics is the optional interface for settings. Every store of this module
// has it.
type Topics interface {
	// Topic returns the settings of one topic, or [ErrNotFound].
	Topic(ctx context.Context, name string) (Topic, error)

	// Declare creates the topic with the declared settings, or changes its settings to
	// them: the newest declaration wins. While the topic has messages, its order and place
	// of retries cannot change: a declaration with others is [ErrConflict] and changes
	// nothing. A store without [CanBound] refuses a maximum of waiting messages, here and
	// in Alter, with [ErrUnsupported].
	Declare(ctx context.Context, d Declaration) (Topic, error)

	// Alter changes settings, if the topic is still at t.Version; [ErrConflict]
	// otherwise, and when Order or Tail would change while messages are there.
	Alter(ctx context.Context, t Topic) (Topic, error)

	// Pause stops claims of the topic, in every process, within two seconds; leased
	// messages go on. A zero duration pauses until Resume. Pausing a paused
	// topic replaces the pause.
	Pause(ctx context.Context, topic string, d time.Duration, by, reason string) error

	// Resume ends a pause. Resuming a topic that is not paused changes nothing.
	Resume(ctx context.Context, topic string) error

	// Stats returns the figures of every topic, or of those named, by name. It counts
	// messages and is meant for people and periodic use, not for a hot path.
	Stats(ctx context.Context, topics ...string) ([]TopicStats, error)

	// RemoveTopic forgets a topic: its settings, pause and figures, and the acked messages
	// that it retains. While a message of it is here, a dead letter included, it fails
	// with [ErrConflict] and changes nothing; [ErrNotFound] if there is no such topic. An
	// append creates the topic again, with default settings, also in a process that had
	// used it before. A store without [CanRemove] answers [ErrUnsupported].
	RemoveTopic(ctx context.Context, name string) error

	// Full returns, for each of those topics that is full by the estimate of
	// [Topic.MaxWaiting], the error with which an append would be refused. A store without
	// [CanBound] has none.
	Full(ctx context.Context, topics ...string) ([]*TopicFullError, error)
}

// TopicStats are the figures of a topic. Appended = Acked + Cancelled + Purged
// + Waiting + Delayed + Leased + Dead + Resolved. A replay appends nothing, unless it goes
// to another topic: then it is purged here and appended there.
type TopicStats struct {
	Topic
	Waiting int64 // claimable, or behind another message of its lane
	Delayed int64 // not before some time: delayed messages and retries
	Leased  int64
	// Stuck is how many leases are stuck, see [LeaseRecord.Stuck].
	Stuck int64
	// Dead counts the open dead letters, Resolved the resolved ones.
	Dead, Resolved int64
	// OldestWaiting is how long the oldest waiting message has been visible; negative
	// if messages wait and the store cannot tell.
	OldestWaiting time.Duration
	Paused        *Pause
	// Totals since the topic was created. Duplicates counts messages that were
	// not stored because they were there; Rescues leases that ended unsettled.
	Appended, Acked, Cancelled, Purged, Duplicates, Retried, Rescues int64
	// LastAck is when a message was last acked; zero if none was, or if the store cannot
	// tell.
	LastAck time.Time
	// Deaths are the last deaths beside other work.
	Deaths Deaths
}

// Full reports whether an append to the topic is refused.
func (st *TopicStats) Full() bool { return st.MaxWaiting > 0 && st.Waiting+st.Delayed >= st.MaxWaiting }

// NewTopic returns the settings of a topic that an append creates: order by key,
// because a caller that sets a key expects order.
func NewTopic(name string) Topic {
	return Topic{Name: name, Order: OrderKey, Deadline: DefaultDeadline, Ageing: DefaultAgeing}
}

// RetriesAt names the place of a retried message in its lane: head or tail.
func (t *Topic) RetriesAt() string {
	if t.Tail {
		return "tail"
	}
	return "head"
}

// Package store is the contract between the runtime and the backends that keep the messages. A backend implements
// [Store] and says in its [Capabilities] what it keeps; the suite in package storetest has a test for every
// sentence below.
//
// # Time
//
// The contract speaks in durations, and the store's clock decides: the server's for SQL and Redis, the process's
// for memory, SQLite and Kafka. Nothing compares one machine's clock with another's. The holder of a lease counts
// its time from the moment the claim was sent, on its own monotonic clock.
// If a clock is set back, nothing lasts longer by that step: leases, retries, delays, holds, pauses, permits, unique
// keys and marks end at most ten seconds later than they would have.
//
// # Leases
//
// A message is under at most one live lease. A lease has a random fence, an end,
// and a hard deadline (claim + the topic's Deadline) that no Extend passes. When it
// has ended, its messages are claimable again. A settle or extend with a stale token
// changes nothing and is reported as a result, not as an error. Between the end of a
// lease and the next claim of its message, a store may still honour the token.
//
// # Lanes
//
// In a topic with order by key, messages with the same key share a lane; every
// other message is a lane of its own. If Append(a) returned before Append(b)
// began, a is before b in their lane. A claim takes a run: the first messages of
// a lane, under one lease, to be carried out one after the other. The run ends
// when its last message is acked, or with the first settlement that is not a
// plain ack; the rest of it is claimable again. Settlements of one run in
// one batch take effect in the order of the lane; one that follows the end of
// its run is refused with pawl.ErrLeaseLost.
//
// A delayed message joins the tail of its lane when it is due and blocks nobody
// until then. A retried message keeps the head of its lane, which is closed
// until the retry is due; with [Topic.Tail] it becomes a delayed message instead,
// with its id, attempts and rank. Such a retry ends a run like an ack: as the last
// of it, or with a Hold. Released and rescued messages keep the head all the same.
// A replayed message joins the tail. A lane never blocks another. A dead head frees
// its lane, unless the topic parks: then each further message of that lane goes to the
// dead letters, too, when its turn comes, for as long as a dead letter of the lane is
// there; replayed messages pass.
//
// # Order of lanes
//
// A message's rank is visible_from + (100 − priority) × the topic's Ageing; the
// lowest goes first, ties in the order of appending (delayed messages: in no order).
// So waiting counts like priority: at the default of two minutes a point it is worth
// half a point a minute, up to the cap of 100. Retry and release keep the rank. A lane
// has the rank of its first message; a store may serve it sooner if a later one has a
// better rank. The order holds within a topic, except for messages that concurrent
// claimers hold.
//
// # Rescues
//
// A lease that ended unsettled counts a rescue for the first message of its run and for no other. One rescue is no
// evidence: processes are replaced and machines are lost every day. With two a message is a suspect. A suspect is a
// run by itself, and weighs 1 with two rescues, 8 with three ([Weight]). A claim brings suspects, in their place by
// rank and beside other messages, up to the weight that it asks for with [Lease.Suspects]. One that does not fit is
// passed over; a store may pass over any that is not the best of its topic.
//
// With four rescues and more a message is carried out alone: only a claim with
// [Lease.Alone] brings it, as its only delivery, and before all other wanted messages.
// When a lease that was claimed alone ends unsettled for the third time, the message
// becomes a dead letter of kind pawl.KindRescue.
//
// A rescue of any other lease is a death beside other work. The last three deaths of each topic are remembered; all
// leases of one owner are one death. While all three are younger than ten leases (of the length that the claim asks
// for), no message of the topic is carried out alone: where processes keep dying, the cause may not be a message.
// None waits longer for that than half an hour from its last rescue.
//
// # Batches
//
// Every Append and Settle carries a batch id. Repeating a call whose outcome is
// unknown, with the same id, returns the first outcome and changes nothing, for
// at least an hour. A call with an empty id is not remembered. Items that no store
// accepts are refused one by one, before any I/O. Whether a topic with a maximum is
// full is looked up at most once a second.
package store

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
)

// Limits of a call, part of the contract like those of a message.
const (
	MaxBatch      = 10_000         // items of an Append or Settle, tokens of an Extend, messages of a Claim
	MaxBatchBytes = 64 << 20       // bytes of all messages of a call together ([pawl.Message.Size])
	MaxEmit       = MaxBatch       // messages emitted by the settlements of a call
	MaxReason     = 8 << 10        // bytes of an error or reason; longer ones are cut
	MaxLease      = 24 * time.Hour // how long a lease can be given for, or extended by
	KeptThrottles = 10             // records of throttled retries that a message keeps
)

// Store keeps messages. It is safe for concurrent use. Every method honours its
// context; after Close they return [ErrClosed]. The arguments belong to the caller
// again when a method has returned, even with an error: a store that still needs them
// makes a copy.
type Store interface {
	// Append stores messages, durably when it returns, and answers with a receipt per
	// message, in order: stored, a duplicate, or refused. Either all of those that are
	// not refused take effect, or the error says that none did ([ErrUnavailable]: or
	// that it is unknown; repeat with the same batch id). A topic that does not exist
	// is created with default settings. A message for a topic that is full is refused
	// with a [TopicFullError], and so are later messages of the call for the same topic;
	// the others are stored.
	//
	// A store that learns the outcome of each message by itself may return receipts
	// together with an error. Then those with no Err were stored, or are duplicates;
	// one with [ErrUnavailable] failed and is certainly not stored; one with
	// [ErrUnknown], which counts before ErrUnavailable, may be stored; any other was
	// refused. Nothing is stored behind a message of its lane that failed: later
	// messages of the lane in the call have failed, too. [Outcome] tells them apart.
	Append(ctx context.Context, batch Batch[pawl.Message]) ([]Receipt, error)

	// Claim takes the messages that are available now, perhaps none, and does not wait. The
	// deliveries of one lane follow one another, lanes come by rank. A topic that is
	// paused or unknown yields nothing.
	Claim(ctx context.Context, wants []Want, lease Lease) ([]pawl.Delivery, error)

	// Extend keeps leases for at least that long from now, but never past their hard
	// deadline, and returns the tokens whose lease is gone. Extending
	// one token of a run extends the run.
	Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) (lost []pawl.Token, err error)

	// Settle ends deliveries, each atomically with the messages that it emits. It
	// returns the items that changed nothing: [pawl.ErrLeaseLost] for a stale
	// token, a [pawl.InvalidError] for an item that no store accepts.
	//
	// A settlement is durable when Settle returns, unless the store's Durability says
	// that acks are durable later. No claim brings the messages behind a run before the
	// settlement that ends the run has taken effect. Within a run nobody has to wait: its
	// holder may begin the next message while the settlement of the one before is on its
	// way.
	Settle(ctx context.Context, batch Batch[Settlement]) ([]Refusal, error)

	// Close ends background work and releases what the store holds. Leases stay:
	// they end by themselves.
	Close() error
}

// Batch is a call's items under an id that makes the call repeatable.
type Batch[T any] struct {
	ID    string
	Items []T
}

// NewBatch gives items a fresh id.
func NewBatch[T any](items ...T) Batch[T] { return Batch[T]{ID: pawl.NewID(), Items: items} }

// Receipt is the answer to one appended message.
type Receipt struct {
	// ID is the message's id, also of one that was not stored.
	ID string
	// DuplicateOf, if not empty, names the message that was there first: the same
	// id, or the same unique key. Nothing was stored.
	DuplicateOf string
	// Err, if not nil, says why the message was refused. Nothing was stored, unless
	// it is [ErrUnknown].
	Err error
}

// Want is what a claim asks of one topic.
type Want struct {
	Topic string
	// Limit is how many messages, at most.
	Limit int
	// MaxBytes bounds the sum of their sizes; 0 is no bound. A single first message
	// that is larger is given all the same.
	MaxBytes int
	// Run is how many messages of one lane, at most; 0 is [DefaultRun].
	Run int
}

// DefaultRun is the length of a run when a [Want] does not state one.
const DefaultRun = 64

// Lease is what a claim asks for its leases.
type Lease struct {
	For time.Duration
	// Owner names the holder: host and process, at most 256 bytes. It tells deaths
	// apart, so a process has another owner after a restart.
	Owner string
	// Suspects is the most that the suspects in the claim may weigh together; see
	// [Weight]. With the AllSuspects of package backend the claim also brings messages
	// that are to be carried out alone.
	Suspects int
	// Alone promises that the claimer, if it gets a message that is to be carried out
	// alone, carries out nothing else beside it.
	Alone bool
}

// Verdict says how a delivery ended.
type Verdict uint8

// The verdicts. The zero value is none, and invalid.
const (
	Ack     Verdict = iota + 1 // done; never delivered again
	Retry                      // failed; again after [Settlement.After]; counts an attempt
	Dead                       // failed for good; counts an attempt
	Release                    // given back after [Settlement.After]; counts nothing
)

// String returns the verdict's name: ack, retry, dead or release.
func (v Verdict) String() string {
	if v < Ack || v > Release {
		return "none"
	}
	return [...]string{Ack: "ack", Retry: "retry", Dead: "dead", Release: "release"}[v]
}

// Settlement ends one delivery.
type Settlement struct {
	Token   pawl.Token
	ID      string // the message's id: emitted ids derive from it
	Verdict Verdict
	// After closes the lane for that long: before a retry, after a release. With
	// [Topic.Tail] a retry waits for After alone, and closes the lane for Hold only.
	After time.Duration
	// Hold closes the lane for that long, whatever the verdict: with a retry or
	// release for the longer of both.
	Hold time.Duration
	// Throttled marks a retry for which the other side asked: it counts a throttle
	// and no attempt. A store keeps the last [KeptThrottles] records of throttled
	// retries.
	Throttled bool
	// Emit is appended with an ack; ids are set to pawl.EmitID(ID, index). A message
	// whose id or unique key is there already is skipped and counted.
	Emit []pawl.Message
	// Marks are written in one step with an ack, as [Shared] writes them. A mark whose
	// If does not match the stored one is skipped; the ack stands. A store without
	// [CanMarks] refuses such a settlement, with [ErrUnsupported].
	Marks []pawl.Mark
	// Failure is recorded with a retry or dead; its Error is the reason of a
	// release, kept for explanations only.
	Failure Failure
}

// Closes is how long the settlement closes the lane, where a retry keeps the head.
func (s *Settlement) Closes() time.Duration {
	if s.Verdict == Retry || s.Verdict == Release {
		return max(s.After, s.Hold)
	}
	return s.Hold
}

// Failure is what is recorded of a failed delivery.
type Failure struct {
	Kind   pawl.Kind
	Error  string        // cut to [MaxReason]
	Rule   string        // the policy's rule that decided
	Action string        // the decision, in words
	Inputs string        // the facts that it decided by
	Worker string        // who carried it out
	Ran    time.Duration // for how long
	// Attrs are its facts ([pawl.WithAttrs]), kept within their limits.
	Attrs map[string]string
}

// Refusal is an item of a Settle that changed nothing.
type Refusal struct {
	Index int // in the batch
	Err   error
}

// As finds the first store in the chain of wrappers that begins with s that implements
// T, if s keeps what is needed of T. A wrapper has a method Unwrap() Store, so that it does
// not hide optional interfaces of the store it wraps.
func As[T any](s Store, needs ...Capability) (T, bool) {
	var none T
	for _, c := range needs {
		if !Can(s, c) {
			return none, false
		}
	}
	for s != nil {
		if t, ok := s.(T); ok {
			return t, true
		}
		w, ok := s.(interface{ Unwrap() Store })
		if !ok {
			break
		}
		s = w.Unwrap()
	}
	return none, false
}

package store

import (
	"context"
	"iter"
	"time"

	"github.com/pawl-dev/pawl"
)

// State is the state of a message. Every message is in exactly one.
type State string

// The states.
const (
	Waiting State = "waiting" // claimable, or behind another message of its lane
	Delayed State = "delayed" // not before some time: a delayed message, or one to be retried, or a held lane's next
	Leased  State = "leased"
	IsDead  State = "dead"
	Acked   State = "acked" // only in a topic that retains
)

// Record is everything a store knows of a message.
type Record struct {
	pawl.Message
	State    State
	Rank     int64
	Attempts int // failed ones, so far
	// Throttles counts the throttled retries since it last failed in another way,
	// and ThrottledSince is when the first of them was; zero: there is none.
	Throttles      int
	ThrottledSince time.Time
	Rescues        int
	Lonely         int // rescues of leases claimed alone
	EnqueuedAt     time.Time
	NotBefore      time.Time // zero: at once
	Lease          *LeaseRecord
	History        []Attempt // failed deliveries and rescues, oldest first
	Reason         string    // the reason of its last transition
	Replays        int
	AckedAt        time.Time
	DeadAt         time.Time
	// Of a dead letter: the kind and fingerprint of what killed it.
	Kind        pawl.Kind
	Fingerprint string
	// Resolved says how a dead letter was resolved; nil: it is open.
	Resolved *Resolution
	// Origin is the place in a log from which a dead letter was read before it died; nil
	// if there is none, or if the record is brief.
	Origin *Origin
}

// Resolution says that a dead letter was dealt with by other means.
type Resolution struct {
	At   time.Time
	By   string
	Note string
}

// Origin is the place of a message in a log, and the client that read it there.
type Origin struct {
	Topic     string
	Partition int32
	Offset    int64
	Timestamp time.Time
	Client    string // as the log knows it
	Group     string
}

// LeaseRecord is a live lease. A settlement with its token ends it, by any process: a
// later settlement by its holder is refused.
type LeaseRecord struct {
	Owner     string
	Token     pawl.Token
	StartedAt time.Time
	Until     time.Time
	Deadline  time.Time
}

// Stuck reports whether the lease is older, at a time of the store's clock, than half of
// what its hard deadline allows: a handler that takes so long probably hangs.
func (l LeaseRecord) Stuck(now time.Time) bool {
	return now.Sub(l.StartedAt) > l.Deadline.Sub(l.StartedAt)/2
}

// Attempt is the record of a delivery that failed, or was rescued. Times are
// the store's.
type Attempt struct {
	Attempt   int       `json:"attempt"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
	Worker    string    `json:"worker"`
	Kind      string    `json:"kind"`
	Error     string    `json:"error"`
	Rule      string    `json:"rule"`
	Action    string    `json:"action"`
	Inputs    string    `json:"inputs,omitempty"`
	NextAt    time.Time `json:"next_at,omitzero"`
	// Throttled: the downstream asked for a later retry, which does not count as an
	// attempt.
	Throttled bool `json:"throttled,omitempty"`
	// Attrs are the facts of the failure.
	Attrs map[string]string `json:"attrs,omitempty"`
}

// Attrs are the facts of the last failure; nil if there are none, or if the record was
// read without its history.
func (r *Record) Attrs() map[string]string {
	if len(r.History) == 0 {
		return nil
	}
	return r.History[len(r.History)-1].Attrs
}

// LastRescue returns when the message was last rescued; the zero time if its history names
// no rescue.
func (r *Record) LastRescue() (at time.Time) {
	for i := range r.History {
		if r.History[i].Kind == string(pawl.KindRescue) {
			at = r.History[i].EndedAt
		}
	}
	return at
}

// Filter selects messages. A zero field selects all.
type Filter struct {
	Topic     string
	State     State  // [Waiting], [Delayed], [Leased], or [Acked] in a topic that retains; empty: the first three
	Key       []byte // nil: any
	OlderThan time.Duration
	Limit     int
}

// Inspector is the optional interface for looking at messages, taking them out and
// bringing them forward. A store without [CanLookup] finds messages by reading, and answers
// Cancel, RunNow and Skip with [ErrUnsupported].
type Inspector interface {
	// Get returns the message with that id, in any state; [ErrNotFound] if it was acked
	// or never stored.
	Get(ctx context.Context, id string) (Record, error)

	// List yields messages that are not dead, by rank within a topic. A store without
	// [CanLookup] answers a listing of acked messages with [ErrUnsupported]. It reads in
	// pages: changes meanwhile may or may not be seen. A limit counts the messages that
	// it yields: it yields fewer only if there are no more.
	List(ctx context.Context, f Filter) iter.Seq2[Record, error]

	// Cancel removes messages that are waiting or delayed. If such a message waited for a
	// retry, the next one of its lane can be claimed at once; a hold stays. It returns an
	// error for each message that it did not remove: [ErrNotFound], or [ErrConflict] for
	// one that is leased or dead.
	Cancel(ctx context.Context, ids ...string) (refused map[string]error, err error)

	// RunNow makes delayed messages due: those that were appended with a delay, and those
	// that wait for a retry or were given back. They keep their attempts and their rank,
	// and a waiting message stays as it is. It returns an error for each message that it
	// refused: [ErrNotFound], or [ErrConflict] for one that is leased or dead.
	RunNow(ctx context.Context, ids ...string) (refused map[string]error, err error)

	// Skip makes dead letters of messages that are waiting or delayed, of kind
	// [pawl.KindSkipped] and with that reason. If such a message waited for a retry, the
	// next one of its lane can be claimed at once. It refuses the same messages as Cancel.
	Skip(ctx context.Context, reason string, ids ...string) (refused map[string]error, err error)
}

// DeadFilter selects dead letters. A zero field selects all.
type DeadFilter struct {
	Topic       string
	Key         []byte
	Kind        pawl.Kind
	Reason      string // contained in the reason, ignoring case
	Fingerprint string
	Text        string    // contained in any text of it, ignoring case
	Since       time.Time // dead at or after
	Until       time.Time // dead before
	Limit       int
	Brief       bool // see [DeadLetters.Dead]
	// Resolved selects those that are resolved, or those that are not; nil: both.
	Resolved *bool
	// Attrs are facts that the failure stated, each with exactly that value.
	Attrs map[string]string
}

// Edit is a change of a dead letter.
type Edit struct {
	ID      string
	Body    []byte            // nil keeps the body as it is
	Headers map[string]string // added to the existing ones
}

// DeadLetters is the optional interface for dead letters. They are complete,
// and never capped or expired. ReplayKeeping, Resolve and Reopen fail with
// [ErrUnsupported] in a store without [CanResolve].
type DeadLetters interface {
	// Dead yields dead letters, the oldest death first; imported ones follow in the order
	// of their import. It reads in pages. Text is searched for in the reason, the errors of
	// attempts, the id and the values of headers, and in key and body where they are valid
	// UTF-8. A brief listing is quicker and leaves out body, headers, history and origin. A
	// limit counts the letters that it yields, as in [Inspector.List].
	Dead(ctx context.Context, f DeadFilter) iter.Seq2[Record, error]

	// Replay appends dead letters again, to the tail of their lane, with their id and
	// history; attempts and rescues begin at 0 again. A non-empty topic sends them there
	// instead. It returns an error for each letter that it did not replay: [ErrNotFound],
	// or [ErrConflict] if another message has taken its unique key since. One call is one
	// transaction, in the order of ids.
	Replay(ctx context.Context, topic string, ids ...string) (refused map[string]error, err error)

	// Purge removes dead letters for good, and returns those that were not there.
	Purge(ctx context.Context, ids ...string) (refused map[string]error, err error)

	// Edit changes body and headers of dead letters where they are: they stay
	// dead, and keep everything else. It returns an error for each letter that it did not
	// edit: [ErrNotFound], [ErrConflict] for a message that is not dead, or a
	// [pawl.InvalidError] for an edit that no store accepts. One call is one transaction.
	Edit(ctx context.Context, edits ...Edit) (refused map[string]error, err error)

	// Import stores dead letters as they are, with their history, reason and time of
	// death. It returns an error for each letter that it did not store: [ErrConflict] if
	// the id is there, a [pawl.InvalidError] for a letter that no store accepts. It creates
	// missing topics, with default settings. Imported letters count as appended, and take
	// no unique key: like all dead letters they take theirs when they are replayed. One
	// call is one transaction.
	Import(ctx context.Context, letters ...Record) (refused map[string]error, err error)

	// ReplayKeeping is [DeadLetters.Replay], except that the count of attempts is kept:
	// a message that has used up its attempts gets one more. Rescues begin at 0 again.
	ReplayKeeping(ctx context.Context, topic string, ids ...string) (refused map[string]error, err error)

	// Resolve marks dead letters as resolved, by whom and why. They remain dead letters
	// in place: only the figures count them apart from the open ones. Resolving a
	// resolved letter replaces the mark; a replay removes it. It returns [ErrNotFound] for
	// each letter that is not there.
	Resolve(ctx context.Context, by, note string, ids ...string) (refused map[string]error, err error)

	// Reopen removes the mark; a letter without one is left as it is. It returns
	// [ErrNotFound] for each letter that is not there.
	Reopen(ctx context.Context, ids ...string) (refused map[string]error, err error)
}

// Waker is the optional interface for waking idle claimers. A caller must also poll, at
// long intervals: a wake-up is a hint and may be missing.
type Waker interface {
	// Listen returns a channel, of capacity one, that receives soon after
	// something in one of the topics may have become claimable: appended or
	// emitted by any process, or due. It ends with ctx, without being closed.
	Listen(ctx context.Context, topics ...string) (<-chan struct{}, error)
}

// TxStore is the optional interface for appends and acks in the caller's own transaction:
// the appended messages exist, and the acked ones are done, if and only if it commits. Tx is
// the driver's type (pgx.Tx, *sql.Tx). A transaction that has ended, or that has failed so
// that it can no longer be committed, is refused with [ErrInvalid]. A caller's transaction
// that stays open stalls no other caller, unless the store's own documentation says so.
type TxStore[Tx any] interface {
	// AppendTx appends as [Store.Append] does.
	AppendTx(ctx context.Context, tx Tx, batch Batch[pawl.Message]) ([]Receipt, error)

	// AckTx acks the delivery with that token. If its lease has ended, it returns [pawl.ErrLeaseLost] and changes
	// nothing.
	AckTx(ctx context.Context, tx Tx, token pawl.Token) error
}

// Migration is one step of a schema.
type Migration struct {
	Version   int
	Name      string
	AppliedAt time.Time // zero: not applied
	Newer     bool      // a newer program applied it: this one does not know it, and must not work with the store
}

// Migrator is the optional interface of stores with a schema. Steps run in a
// transaction each, under a lock: several processes may call at once.
type Migrator interface {
	// Migrations returns every step this program knows, applied or not, in order, and behind
	// them those that a newer program has applied.
	Migrations(ctx context.Context) ([]Migration, error)
	// MigrateUp applies what is missing and returns what it applied. It and MigrateDown change
	// nothing that a newer program has migrated: [ErrSchema].
	MigrateUp(ctx context.Context) ([]Migration, error)
	// MigrateDown takes back the newest steps down to version to; 0 removes the
	// schema and every message in it.
	MigrateDown(ctx context.Context, to int) ([]Migration, error)
}

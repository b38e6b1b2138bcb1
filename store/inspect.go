package store

import (
	"context"
	"iter"
	"time"

	"github.com/pawl-dev/pawl"
)

// State is where a message is. Every message is in exactly one.
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
	State      State
	Rank       int64
	Attempts   int // failed ones, so far
	Rescues    int
	Lonely     int // rescues of leases claimed alone
	EnqueuedAt time.Time
	NotBefore  time.Time // zero: at once
	Lease      *LeaseRecord
	History    []Attempt // failed deliveries and rescues, oldest first
	Reason     string    // why it is where it is: of its last transition
	Replays    int
	AckedAt    time.Time
	DeadAt     time.Time
	// Of a dead letter: the kind and fingerprint of what killed it.
	Kind        pawl.Kind
	Fingerprint string
}

// LeaseRecord is a live lease.
type LeaseRecord struct {
	Owner     string
	Token     pawl.Token
	StartedAt time.Time
	Until     time.Time
	Deadline  time.Time
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
	NextAt    time.Time `json:"next_at,omitzero"`
}

// Filter selects messages. A zero field selects all.
type Filter struct {
	Topic     string
	State     State  // [Waiting], [Delayed] or [Leased]; empty: these three
	Key       []byte // nil: any
	OlderThan time.Duration
	Limit     int
}

// Inspector is the optional interface for looking at messages and taking them
// out, by id or in bulk.
type Inspector interface {
	// Get returns the message with that id, in whatever state; [ErrNotFound] if
	// it was acked or never here.
	Get(ctx context.Context, id string) (Record, error)

	// List yields messages that are not dead, by rank within a topic. It reads in
	// pages: what changes meanwhile may or may not be seen.
	List(ctx context.Context, f Filter) iter.Seq2[Record, error]

	// Cancel removes messages that are waiting or delayed, and returns, for those
	// it did not remove, why: [ErrNotFound], or [ErrConflict] for one that is
	// leased or dead.
	Cancel(ctx context.Context, ids ...string) (refused map[string]error, err error)
}

// DeadFilter selects dead letters. A zero field selects all.
type DeadFilter struct {
	Topic       string
	Key         []byte
	Kind        pawl.Kind
	Reason      string // contained in the reason, whatever the case
	Fingerprint string
	Since       time.Time // dead at or after
	Until       time.Time // dead before
	Limit       int
}

// DeadLetters is the optional interface for dead letters. They are complete,
// and never capped or expired.
type DeadLetters interface {
	// Dead yields dead letters, the oldest death first. It reads in pages.
	Dead(ctx context.Context, f DeadFilter) iter.Seq2[Record, error]

	// Replay appends dead letters again, to the tail of their lane, with their id
	// and history, their attempts and rescues counted anew. A non-empty topic
	// sends them there instead. It returns, for those it did not replay, why:
	// [ErrNotFound], or [ErrConflict] when another message has taken its unique
	// key since. One call is one transaction, in the order of ids.
	Replay(ctx context.Context, topic string, ids ...string) (refused map[string]error, err error)

	// Purge removes dead letters for good, and returns those that were not there.
	Purge(ctx context.Context, ids ...string) (refused map[string]error, err error)
}

// Waker is the optional interface for waking idle claimers. Whoever uses it
// must poll as well, seldom: a wake-up is a hint and may be missing.
type Waker interface {
	// Listen returns a channel, of capacity one, that receives soon after
	// something in one of the topics may have become claimable: appended or
	// emitted by any process, or due. It ends with ctx, without being closed.
	Listen(ctx context.Context, topics ...string) (<-chan struct{}, error)
}

// TxAppender is the optional interface for appending in the caller's own
// transaction: the messages exist if, and only if, it commits. Tx is the
// driver's type (pgx.Tx, *sql.Tx). A caller's transaction that stays open stalls
// nobody else, except where the store's own documentation says so.
type TxAppender[Tx any] interface {
	AppendTx(ctx context.Context, tx Tx, batch Batch[pawl.Message]) ([]Receipt, error)
}

// Migration is one step of a schema.
type Migration struct {
	Version   int
	Name      string
	AppliedAt time.Time // zero: not applied
}

// Migrator is the optional interface of stores with a schema. Steps run in a
// transaction each, under a lock: several processes may call at once.
type Migrator interface {
	// Migrations returns every step this program knows, applied or not, in order.
	Migrations(ctx context.Context) ([]Migration, error)
	// MigrateUp applies what is missing and returns what it applied.
	MigrateUp(ctx context.Context) ([]Migration, error)
	// MigrateDown takes back the newest steps down to version to; 0 removes the
	// schema and every message in it.
	MigrateDown(ctx context.Context, to int) ([]Migration, error)
}

package store

import (
	"context"
	"iter"
	"time"

	"github.com/pawl-dev/pawl"
)

// Marked is a stored mark.
type Marked struct {
	Scope   string
	Key     string
	Value   []byte
	Version int64     // above 0; no two writes of a key have the same
	Until   time.Time // when it expires, by the store's clock; zero: never
}

// MarkReceipt is the answer to one mark.
type MarkReceipt struct {
	// Put reports whether the mark was written or removed. If it was not and there is no
	// Err, what is there does not match the mark's If.
	Put bool
	// Version is that of the mark as written; 0 if it was not, or was removed.
	Version int64
	// Err says why the mark is invalid.
	Err error
}

// Marks is the optional interface for values by key, in scopes: ledgers, caches,
// what a run has seen. It is made for many: writers wait for one another only
// where they write the same key.
//
// A value larger than a few kilobytes costs as much as a message of its size. Work that
// only has to be handed out once needs no mark: an emitted message with a [pawl.Unique]
// in a named scope is stored once, together with the ack, and Forget frees its key.
type Marks interface {
	// PutMarks writes marks, durably when it returns, and answers with a receipt
	// per mark, in order. All that are to be written are written together, or the
	// error says that none was ([ErrUnavailable]: or that it is unknown; a repetition
	// tells by the value or version that is there). Of two marks with one scope and
	// key the second is refused, with a [pawl.InvalidError].
	PutMarks(ctx context.Context, marks ...pawl.Mark) ([]MarkReceipt, error)

	// GetMarks returns the marks of a scope that are there, by key. More than
	// [MaxBatch] keys, or values of more than [MaxBatchBytes] together, are
	// [ErrTooLarge].
	GetMarks(ctx context.Context, scope string, keys ...string) (map[string]Marked, error)

	// ListMarks yields the marks of a scope whose key begins with prefix, in the
	// order of their keys. It reads in pages: a mark that is written or removed
	// meanwhile may or may not be seen.
	ListMarks(ctx context.Context, scope, prefix string) iter.Seq2[Marked, error]

	// Forget removes all marks of a scope, and frees the unique keys of messages that
	// name the scope, whether the messages are there or not. What is written meanwhile
	// may stay. It removes in parts, so that no other caller waits for long; after an
	// error a part may be gone.
	Forget(ctx context.Context, scope string) error
}

package store

import (
	"context"
	"iter"
	"time"

	"github.com/pawl-dev/pawl"
)

// Shared is the optional interface for what processes share beside messages: entries, marks
// and rates. A store without [CanMarks] or [CanPace] answers those methods with
// [ErrUnsupported].
//
// Entries are a few small values by key, for operations, schedules and settings. They are
// not made for one write per message: writers wait for one another.
//
// Marks are many values by key, in scopes: ledgers, caches, the visited pages of a run.
// Writers wait for one another only where they write the same key. A value larger than a
// few kilobytes costs as much as a message of its size. Work that only has to be handed
// out once needs no mark: an emitted message with a [pawl.Unique] in a named scope is
// stored once, together with the ack, and Forget frees its key.
//
// A rate costs a write per key and call, and nothing while it is not called. A key that has
// not been used for as long as its permits take is forgotten.
type Shared interface {
	// GetState returns the entry of a key; [ErrNotFound] if there is none.
	GetState(ctx context.Context, key string) (Entry, error)

	// PutState stores a value, durably when it returns, if the entry has that version,
	// and returns the entry as it is now. Version 0 requires that there is none yet,
	// [AnyVersion] requires nothing; otherwise it is [ErrConflict].
	PutState(ctx context.Context, key string, value []byte, version int64, writer string) (Entry, error)

	// DeleteState removes the entry of a key if it has that version, or any with
	// [AnyVersion]; [ErrNotFound] if there is none, [ErrConflict] if it has another. A
	// deleted entry is not listed, so watchers do not see its removal: if they have to,
	// put an empty value instead.
	DeleteState(ctx context.Context, key string, version int64) error

	// ListState yields the entries whose key begins with prefix and whose version is
	// above after (0: all of them), in the order of their versions. It reads in pages:
	// an entry that changes meanwhile may come again. A caller that passes the last
	// version it has seen misses no put: what becomes visible later has a higher one.
	ListState(ctx context.Context, prefix string, after int64) iter.Seq2[Entry, error]

	// LatestState yields the entries whose key begins with prefix and whose version is
	// below before (0: all of them), the highest version first. An entry that changes
	// meanwhile may be missing.
	LatestState(ctx context.Context, prefix string, before int64) iter.Seq2[Entry, error]

	// Clock returns the time by the store's clock.
	Clock(ctx context.Context) (time.Time, error)

	// PutMarks writes marks, durably when it returns, and answers with a receipt
	// per mark, in order. They are written together, or the error says that none was
	// ([ErrUnavailable]: or that this is unknown; a repetition shows it by the stored value
	// or version). Of two marks with one scope and
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

	// Reserve takes permits, by the store's clock, and answers in order. All keys are
	// served in one step; no two paces of a call have the same key. An invalid pace
	// fails the call with a [pawl.InvalidError], and more than [MaxBatch] with
	// [ErrTooLarge]. After an error the permits may or may not be taken.
	Reserve(ctx context.Context, paces ...Pace) ([]Paced, error)
}

// Limits of the state, part of the contract.
const (
	MaxStateKey   = 255     // bytes of a key
	MaxStateValue = 1 << 20 // bytes of a value
)

// AnyVersion puts or deletes an entry regardless of its version.
const AnyVersion = pawl.AnyVersion

// Entry is a value in the state of a store.
type Entry struct {
	Key     string
	Value   []byte
	Version int64     // higher than that of every change before, whatever its key
	Writer  string    // who put it
	At      time.Time // when, by the store's clock
}

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
	// Err, the stored mark does not match the If of this one.
	Put bool
	// Version is that of the mark as written; 0 if it was not, or was removed.
	Version int64
	// Err says why the mark is invalid.
	Err error
}

// Pace asks for permits of a key, or holds it. Exactly one of N and Hold is set.
type Pace struct {
	// Key names the rate: 1 to [pawl.MaxKey] bytes.
	Key string
	// Every is the time between two permits, and Burst the number of permits at once
	// after a pause; 0 is 1. All callers must state the same values for a key.
	Every time.Duration
	Burst int
	// N is how many permits to take, at most Burst.
	N int
	// Within is the longest wait for the permits. If it would be longer, none is taken.
	Within time.Duration
	// Hold refuses all permits of the key for that long from now. It never shortens an
	// earlier hold, and takes back no permits that were given.
	Hold time.Duration
}

// Paced is the answer to one Pace.
type Paced struct {
	// Taken reports whether the permits were taken, or the key is now held.
	Taken bool
	// Wait is how long from now the permits become valid; if they were not taken, how
	// long until it is worth asking again.
	Wait time.Duration
}

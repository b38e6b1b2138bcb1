package store

import (
	"context"
	"iter"
	"time"

	"github.com/pawl-dev/pawl"
)

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

// Entries is the optional interface for the state of a store: a few small values
// by key, for operations, schedules and settings that all processes share. It is
// not made for one write per message: writers wait for one another.
type Entries interface {
	// GetState returns the entry of a key; [ErrNotFound] if there is none.
	GetState(ctx context.Context, key string) (Entry, error)

	// PutState stores a value, durably when it returns, if the entry has that version,
	// and returns the entry as it is now. Version 0 requires that there is none yet,
	// [AnyVersion] requires nothing; otherwise it is [ErrConflict].
	PutState(ctx context.Context, key string, value []byte, version int64, writer string) (Entry, error)

	// DeleteState removes the entry of a key if it has that version, or any with
	// [AnyVersion]; [ErrNotFound] if there is none, [ErrConflict] if it has another. A
	// deleted entry is not listed, so watchers do not see it go: put an empty value if
	// they must.
	DeleteState(ctx context.Context, key string, version int64) error

	// ListState yields the entries whose key begins with prefix and whose version is
	// above after (0: all of them), in the order of their versions. It reads in pages:
	// an entry that changes meanwhile may come again. A caller that passes the last
	// version it has seen misses no put: what becomes visible later has a higher one.
	ListState(ctx context.Context, prefix string, after int64) iter.Seq2[Entry, error]

	// Clock returns the time by the store's clock.
	Clock(ctx context.Context) (time.Time, error)
}

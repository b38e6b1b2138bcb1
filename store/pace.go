package store

import (
	"context"
	"time"
)

// Pace asks for permits of a key, or holds it. Exactly one of N and Hold is set.
type Pace struct {
	// Key is what has a rate of its own: 1 to [pawl.MaxKey] bytes.
	Key string
	// Every is the time between two permits, and Burst how many there may be at once
	// after a pause; 0 is 1. All callers must state the same values for a key.
	Every time.Duration
	Burst int
	// N is how many permits to take, at most Burst.
	N int
	// Within is how long the permits may be waited for. If it would take longer none
	// is taken.
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

// Pacer is the optional interface for rates by key that all processes share: a host, a
// tenant, an account. It costs a write per key and call, and nothing while it is not
// called. A key that has not been used for as long as its permits take is forgotten.
type Pacer interface {
	// Reserve takes permits, by the store's clock, and answers in order. All keys are
	// served in one step; no two paces of a call have the same key. An invalid pace
	// fails the call with a [pawl.InvalidError], and more than [MaxBatch] with
	// [ErrTooLarge]. After an error the permits may or may not be taken.
	Reserve(ctx context.Context, paces ...Pace) ([]Paced, error)
}

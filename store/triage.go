package store

import (
	"context"
	"time"
)

// Resolution says that a dead letter was dealt with by other means.
type Resolution struct {
	At   time.Time
	By   string
	Note string
}

// Triage is the optional interface for dealing with dead letters other than by
// replaying and purging them.
type Triage interface {
	// ReplayKeeping is [DeadLetters.Replay], except that the count of attempts is kept:
	// a message that has used up its attempts gets one more. Rescues are counted anew.
	ReplayKeeping(ctx context.Context, topic string, ids ...string) (refused map[string]error, err error)

	// Resolve marks dead letters as resolved, by whom and why. They remain dead letters
	// in place: only the figures count them apart from the open ones. Resolving a
	// resolved letter replaces the mark; a replay removes it. It returns, for those it
	// did not mark, why: [ErrNotFound].
	Resolve(ctx context.Context, by, note string, ids ...string) (refused map[string]error, err error)

	// Reopen removes the mark; a letter without one is left as it is. It refuses what
	// Resolve refuses.
	Reopen(ctx context.Context, ids ...string) (refused map[string]error, err error)
}

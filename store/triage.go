package store

import (
	"context"
	"time"
)

// Resolution says that somebody has dealt with a dead letter in another way.
type Resolution struct {
	At   time.Time
	By   string
	Note string
}

// Triage is the optional interface for what can be done to dead letters besides
// replaying and purging them.
type Triage interface {
	// ReplayKeeping is [DeadLetters.Replay], except that attempts stand as they were:
	// what has used up all that it had gets one more. Rescues count anew all the same.
	ReplayKeeping(ctx context.Context, topic string, ids ...string) (refused map[string]error, err error)

	// Resolve marks dead letters as resolved, by whom and why. They stay where they are,
	// and what they are: only the figures count them apart from the open ones. Resolving
	// what is resolved replaces the mark; a replay ends it. It returns, for those it did
	// not mark, why: [ErrNotFound].
	Resolve(ctx context.Context, by, note string, ids ...string) (refused map[string]error, err error)

	// Reopen takes the mark away; of what has none nothing changes. It refuses what
	// Resolve refuses.
	Reopen(ctx context.Context, ids ...string) (refused map[string]error, err error)
}

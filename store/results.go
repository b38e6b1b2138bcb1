package store

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
)

// Result is a message in the order of appending.
type Result struct {
	// Cursor is the message's place: above 0, higher than that of every message of
	// the topic that was appended before.
	Cursor int64
	pawl.Message
	EnqueuedAt time.Time
}

// Results is the optional interface for reading a topic from beginning to end
// instead of claiming from it: an exporter keeps one number. The topic must have
// order none ([OrderNone]); another one is [ErrInvalid].
type Results interface {
	// ScanResults returns messages of a topic that are neither acked nor dead, in the
	// order of appending, from behind the cursor after (0: from the beginning), at most
	// limit of them and no more than fit into a call. The cursor next is the place to
	// continue: every message that was not returned, and every later one of any
	// transaction, has a higher cursor. It does not pass messages of a transaction that
	// has not committed yet: such a transaction holds back the messages appended after it
	// began. No results and no error means that there are no more for now. A delayed
	// message may be returned again when it is due.
	ScanResults(ctx context.Context, topic string, after int64, limit int) (results []Result, next int64, err error)

	// RemoveResults removes the messages of a topic up to a cursor, and returns how
	// many. They count as acked; nothing is retained. Those that are leased stay. It
	// removes in parts; after an error a part may be gone.
	RemoveResults(ctx context.Context, topic string, upTo int64) (removed int64, err error)
}

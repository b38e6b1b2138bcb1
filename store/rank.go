package store

import (
	"time"

	"github.com/pawl-dev/pawl"
)

// ToCap is the wait, in microseconds, that brings a message of a priority to the cap
// in a topic with this ageing.
func ToCap(priority int, ageing time.Duration) int64 {
	return int64(pawl.MaxPriority-priority) * ageing.Microseconds()
}

// Rank is the place of a message in its topic, in microseconds of the store's
// clock: the moment at which ageing brings it to the cap.
func (t *Topic) Rank(visible time.Time, priority int) int64 {
	return visible.UnixMicro() + ToCap(priority, t.Ageing)
}

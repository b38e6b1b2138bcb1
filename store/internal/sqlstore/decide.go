package sqlstore

import (
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// Delivery is what a decision goes by beside the settlement.
type Delivery struct {
	Attempts int  // of the message, without this delivery
	Keyed    bool // its lane is that of a key
	Tail     bool // its topic retries at the tail of the lane
	Last     bool // it is the last message of its run
}

// Decision is what becomes of a delivery that is settled.
type Decision struct {
	Attempts int            // of the message from now on
	Failed   *store.Attempt // is recorded; nil for an ack and a release
	Reason   string         // of the message from now on; empty for an ack
	Leaves   bool           // the message leaves its lane
	Delayed  bool           // it waits for the After of the settlement, and joins the tail of its lane then
	Ends     bool           // the run is over
	Closed   time.Duration  // how long the lane stays closed after the run
}

// Decide decides what a settlement does. at returns the store's time after a duration from now.
func Decide(st *store.Settlement, m Delivery, at func(time.Duration) time.Time) Decision {
	d := Decision{Attempts: m.Attempts, Leaves: true, Ends: true, Closed: st.Closes()}
	var next time.Time
	switch st.Verdict {
	case store.Ack:
		d.Ends = m.Last || st.Hold > 0
		return d
	case store.Release:
		d.Leaves, d.Reason = false, backend.ReleasedReason(&st.Failure)
		return d
	case store.Retry:
		if next, d.Leaves = at(st.Closes()), m.Tail && m.Keyed; d.Leaves {
			next, d.Delayed, d.Ends, d.Closed = at(st.After), true, m.Last || st.Hold > 0, st.Hold
		}
	}
	a := FailedAttempt(m.Attempts+1, &st.Failure, at(0), next)
	if a.Throttled = st.Throttled; !a.Throttled {
		d.Attempts = a.Attempt
	}
	d.Failed, d.Reason = &a, a.Error
	return d
}

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
	now, f := at(0), &st.Failure
	d.Reason = store.Text(f.Error)
	d.Failed = &store.Attempt{
		Attempt: m.Attempts + 1, StartedAt: now.Add(-f.Ran), EndedAt: now, NextAt: next, Throttled: st.Throttled,
		Worker: store.Text(f.Worker), Kind: store.Text(string(f.Kind)), Error: d.Reason, Rule: store.Text(f.Rule),
		Action: store.Text(f.Action), Inputs: store.Text(f.Inputs), Attrs: backend.FitAttrs(f.Attrs),
	}
	if !st.Throttled {
		d.Attempts++
	}
	return d
}

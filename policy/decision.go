package policy

import (
	"time"

	"github.com/pawl-dev/pawl"
)

// Action is what happens to the work.
type Action uint8

// The actions. The zero value is none, and invalid.
const (
	Retry  Action = iota + 1 // again, after the delay
	Dead                     // to the dead letters
	Ignore                   // neither: it is recorded and counted, and the work continues as if it had succeeded
)

// String returns the action's name: retry, dead or ignore.
func (a Action) String() string { return nameOf(a, "none", "retry", "dead", "ignore") }

// nameOf is the name of a value; the first one is also that of values that do not exist.
func nameOf[T ~uint8](value T, names ...string) string {
	if int(value) < len(names) {
		return names[value]
	}
	return names[0]
}

// Alert is the severity of a failure.
type Alert uint8

// The alert levels, in order. The zero value states none; in a decision it
// means [Info].
const (
	Info Alert = iota + 1
	Warn
	Error
	Critical
)

// String returns the level's name: info, warn, error or critical.
func (a Alert) String() string { return nameOf(a, "info", "info", "warn", "error", "critical") }

// Degrade is what the work falls back to when a part of it is given up.
type Degrade uint8

// The ways to degrade. The zero value is none. When a whole delivery is ignored,
// it is acked: by CarryOn and none with what it emitted, by the others without.
const (
	NoDegrade Degrade = iota
	SkipItem          // leave the item out and continue with the others
	CarryOn           // continue without the part that failed
	StopTask          // end the task as a whole: nothing follows
)

// String returns the name: none, skip-item, carry-on or stop-task.
func (d Degrade) String() string { return nameOf(d, "none", "skip-item", "carry-on", "stop-task") }

// Decision is what the policy says about a failure.
type Decision struct {
	Action Action
	Delay  time.Duration // before the retry
	// Throttled: the retry counts no attempt.
	Throttled bool
	Alert     Alert
	Degrade   Degrade
	// Rule is the id of the rule that decided.
	Rule string
	// Reason explains the decision, for attempt records and `policy explain`.
	Reason string
	// MaxAttempts is how many attempts the rule allows; 0 when this failure is
	// not bounded by it.
	MaxAttempts int
	// Event, Kind and Facts are what the decision was made from: what the attempt
	// and its error state together.
	Event Event
	Kind  pawl.Kind
	Facts Facts
}

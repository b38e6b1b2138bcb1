package limit

import "time"

// Window learns how many calls a downstream takes at once. Its methods are
// called one at a time.
type Window interface {
	// Size is how many calls may be under way, on average: a fraction is kept by
	// pauses. Of a window that learns it is above 0.
	Size() float64
	// Ended takes note of a call that has ended.
	Ended(c Call)
}

// Stated is a [Window] that learns nothing: somebody else knows its size.
type Stated func() float64

// Size implements [Window].
func (s Stated) Size() float64 { return s() }

// Ended implements [Window].
func (Stated) Ended(Call) {}

// Call is a call that has ended.
type Call struct {
	Began, Ended time.Time
	// InFlight is how many others are still under way.
	InFlight int
	// Full reports whether the window was used up, or nearly so.
	Full bool
	// InRow counts, of a refused call, the refusals that came one after the other
	// with no call taken in between, this one included.
	InRow   int
	Outcome Outcome
}

// Outcome is what a call says about the downstream.
type Outcome uint8

// The outcomes.
const (
	Served  Outcome = iota // it did its work
	Refused                // it is overloaded: it said so, or did not answer in time
	Failed                 // something else went wrong, which says nothing about load
)

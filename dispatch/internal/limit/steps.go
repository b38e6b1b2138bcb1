package limit

import (
	"math"
	"time"
)

// Steps is a [Window] that goes by the plain rule: one more after so many calls
// served in a row, and a fraction of it at a refusal, once per flight. Only while
// it is well below where it was cut, or above, does it grow with every call: the
// plain rule would use three quarters of a limit that stands still, this one nearly
// all, and finds one that has moved soon.
type Steps struct {
	StepsConfig
	size   float64
	cutAt  float64   // its size at the last cut; 0: there was none
	cut    time.Time // when that was
	served int       // in a row
}

// StepsConfig says how a [Steps] goes. All of it is stated.
type StepsConfig struct {
	Min, Max float64
	Start    float64
	Step     float64 // added at once
	After    int     // calls served in a row that it takes; 0: as many as its size, and mostly 40 once it was cut
	Factor   float64 // of its size is left by a cut
}

// near is the part of where it was cut from which on it is careful. There, leastRow calls have to be served in a row
// even if it is small: else a downstream that takes five at once would refuse one call in six. Below few it is not
// careful: so small it becomes where calls are refused whatever the load, and there it would grow no more.
const (
	near     = 0.9
	leastRow = 40
	few      = 4
)

// NewSteps returns a window; c is valid.
func NewSteps(c StepsConfig) *Steps {
	return &Steps{StepsConfig: c, size: min(max(c.Start, c.Min), c.Max)}
}

// Size implements [Window].
func (w *Steps) Size() float64 { return w.size }

// Ended implements [Window]. A call that failed in another way than by too much
// load says nothing.
func (w *Steps) Ended(c Call) {
	switch c.Outcome {
	case Refused:
		w.served = 0
		if !c.Began.After(w.cut) {
			return // it was under way at the cut, which was for all of them
		}
		w.cutAt, w.cut = w.size, c.Ended
		if w.size = w.size * w.Factor; w.size >= few/2 {
			w.size = math.Floor(w.size) // part of a call is one too many at the limit
		}
		w.size = max(w.size, w.Min)
	case Served:
		if c.Full {
			w.grow()
		}
	}
}

// grow counts a call that was served while the window was used up.
func (w *Steps) grow() {
	need := w.After
	switch {
	case w.size < min(near*w.cutAt, w.cutAt-1), w.cutAt > 0 && w.size >= w.cutAt+1: // the limit has moved up
		need = 1
	case need > 0:
	case w.cutAt > 0 && w.size >= few:
		need = max(int(w.size), leastRow)
	default:
		need = max(int(w.size), 1)
	}
	if w.served++; w.served >= need {
		w.served = 0
		w.size = min(w.size+w.Step, w.Max)
	}
}

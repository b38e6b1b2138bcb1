package limit

import (
	"math"
	"time"
)

// Steps is a [Window] that goes by the plain rule: one more after so many calls
// served in a row, and a fraction of it at a refusal, once per flight. Before the
// first refusal, well below where it was cut, and from there on it grows with every
// call: the plain rule would use three quarters of a limit that stands still, this
// one nearly all, and soon finds one that it does not know, or that has moved.
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
	After    int     // calls served in a row that it takes; 0: it goes by its size
	Factor   float64 // of its size is left by a cut
}

// near is the part of where it was cut from which on it is careful: there it takes a row of calls, served one after
// the other, to grow. A row has as many as the size, but a small window has longer ones: else a downstream that takes
// five at once would refuse one call in six. Below few it is not careful: a window becomes that small when calls are
// refused regardless of the load, and would then never grow again.
const (
	near            = 0.9
	minRow, longRow = 24, 40 // what is least for a small window, and for one of ten or more
	few             = 4
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
	size := max(int(w.size), 1)
	switch {
	case w.size < min(near*w.cutAt, w.cutAt-1):
		need = 1
	case w.cutAt > 0 && w.size >= w.cutAt: // the limit has moved up
		need = 1
	case need > 0: // it is stated
	case w.cutAt == 0:
		need = 1
	case w.size < few:
		need = size
	default:
		need = max(size, min(max(4*size, minRow), longRow))
	}
	if w.served++; w.served >= need {
		w.served = 0
		w.size = min(w.size+w.Step, w.Max)
	}
}

package limit

import (
	"math"
	"time"
)

// AIMD is a [Window] that grows while calls are served and shrinks when they are
// refused. It differs from the classic saw-tooth (Chiu and Jain, 1989) in that it
// remembers: a refusal takes it to what was under way without the refused call,
// which is what the downstream bears, and from there it grows in steps that are
// small at first and double while nothing is refused. So it stays close to a
// limit that stands still, at the price of one refusal in some fifty calls, and
// follows one that moves.
type AIMD struct {
	min, max float64
	size     float64
	step     float64
	served   int       // since it grew or shrank
	doubling bool      // nothing was refused yet
	shrunk   time.Time // when it last shrank
	mean     time.Duration
}

const (
	firstSize   = 10   // at the start
	leastServed = 50   // calls that must be served before it grows, at least
	firstStep   = 0.02 // of its size, after a refusal
	topStep     = 0.25 // of its size, at most
	shrink      = 0.97 // to that much of its size by a refusal, at least
)

// NewAIMD returns a window between lowest, at least 0.01, and highest.
func NewAIMD(lowest, highest float64) *AIMD {
	lowest = max(lowest, 0.01)
	highest = max(highest, lowest)
	size := min(max(firstSize, lowest), highest)
	return &AIMD{min: lowest, max: highest, size: size, step: size, doubling: true}
}

// Size implements [Window].
func (w *AIMD) Size() float64 { return w.size }

// Ended implements [Window].
func (w *AIMD) Ended(c Call) {
	switch c.Outcome {
	case Served:
		w.mean += (c.Ended.Sub(c.Began) - w.mean) / 8
		w.grow(c.Full)
	case Refused:
		w.shrink(c)
		w.step, w.served, w.doubling = w.size*firstStep, 0, false
	}
}

// shrink shrinks by a refusal: to what is under way without it, though by little
// at a time while other calls are taken. One that comes before an earlier one
// can have had an effect says nothing new.
func (w *AIMD) shrink(c Call) {
	least := w.size * shrink
	if c.InRow > 1 {
		least = w.size * 0.9
	} else if c.Began.After(w.shrunk) {
		if c.Ended.Sub(w.shrunk) < w.mean/2 {
			return
		}
		w.shrunk = c.Ended
	}
	w.size = max(min(w.size, float64(c.InFlight)), least, w.min)
}

// grow counts a call that was served. A window that was not used up shows nothing.
func (w *AIMD) grow(full bool) {
	if !full {
		return
	}
	need := math.Ceil(w.size)
	if !w.doubling {
		need = max(need, leastServed)
	}
	if w.served++; float64(w.served) < need {
		return
	}
	w.served = 0
	w.size = min(w.size+w.step, w.max)
	w.step = min(2*w.step, w.size*topStep)
	if w.doubling {
		w.step = w.size
	}
}

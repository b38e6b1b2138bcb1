package program

import "time"

// window is how many deliveries a child may hold. A child that works on one after
// the other gets as many as keep it busy while an answer travels; one that works
// on many side by side gets more for as long as it takes them without becoming
// slower. Which of the two it is shows when its window is doubled: the time from
// giving to answer doubles, too, or it stays.
type window struct {
	size  int
	fixed bool

	// The round: answers that came while the window was full.
	n   int
	sum time.Duration

	trying bool          // the last round doubled the window of a slow child
	before time.Duration // the mean then
	proven int           // side by side, so many did not make it slower
	mean   time.Duration // of the last round
	next   time.Time     // when to try again
	pause  time.Duration
	fresh  bool // the first answer tells how long the program takes to start
}

const (
	quick   = 2 * time.Millisecond  // of work, a child may hold
	slow    = 6 * time.Millisecond  // the window shrinks
	tooSlow = 5 * time.Second       // nothing is tried
	atHand  = 20 * time.Millisecond // of work, is to be at hand for it

	minTry = time.Second
	maxTry = 5 * time.Minute
)

func newWindow(fixed int) window {
	w := window{size: 1, proven: 1, pause: minTry}
	if fixed > 0 {
		w.size, w.fixed = fixed, true
	}
	return w
}

// restart begins small with a fresh program.
func (w *window) restart() {
	if !w.fixed {
		*w = newWindow(0)
	}
	w.fresh = true
}

// usual is how long an answer usually takes.
func (w *window) usual() time.Duration { return w.mean }

// within is how many answers come in a time; 0 while that is not known.
func (w *window) within(d time.Duration) int {
	if w.mean <= 0 {
		return 0
	}
	return int(min(int64(d)*int64(w.size)/int64(w.mean), MaxInFlight))
}

// answered takes how long an answer took, of a child that held so many.
func (w *window) answered(took time.Duration, held int, now time.Time) {
	if w.fresh {
		w.fresh = false
		return
	}
	if held < w.size {
		return
	}
	w.n++
	w.sum += took
	if w.n < max(4, w.size) {
		return
	}
	w.mean = w.sum / time.Duration(w.n)
	w.n, w.sum = 0, 0
	if !w.fixed {
		w.size = min(max(w.adapt(now), 1), MaxInFlight)
	}
}

// adapt returns the window after a round.
func (w *window) adapt(now time.Time) int {
	trying := w.trying
	w.trying = false
	switch {
	case w.mean <= quick:
		return w.double()
	case trying && w.mean < w.before*5/3:
		w.proven, w.pause = w.size, minTry
		return w.double()
	case trying:
		w.next, w.pause = now.Add(w.pause), min(2*w.pause, maxTry)
		return w.size / 2
	case w.size > w.proven && w.mean > slow:
		return max(w.proven, int(int64(w.size)*int64(slow)/int64(w.mean)))
	case w.proven > 1 && w.mean > 2*w.before+slow:
		w.proven = 1
		return w.size / 2
	case w.size <= w.proven && w.mean < tooSlow && !now.Before(w.next):
		return w.double()
	}
	return w.size
}

// double tries twice as many.
func (w *window) double() int {
	w.trying, w.before = w.mean > quick, w.mean
	return 2 * w.size
}

package pipe

import "time"

// window is how many deliveries a child may hold: as many as keep it busy while an answer travels, and no more, so
// that what it does not get to is free for others. What a program takes for one delivery shows in how long its answers
// take while the window is full. One that works on several deliveries at once is told so by [Config.InFlight].
type window struct {
	size  int
	fixed bool
	fresh bool // the first answer tells how long the program takes to start

	round time.Duration // what the answers took that came while the window was full
	n     int           // of these
	mean  time.Duration // of the last round
}

const (
	quick  = 2 * time.Millisecond  // of work, a child may hold
	slow   = 6 * time.Millisecond  // the window shrinks
	atHand = 20 * time.Millisecond // of work, is to be at hand for it

	minRound = 16 // durations vary
)

func newWindow(fixed int) window {
	if fixed > 0 {
		return window{size: fixed, fixed: true}
	}
	return window{size: 1}
}

// restart begins small with a fresh program.
func (w *window) restart() {
	if !w.fixed {
		*w = newWindow(0)
	}
	w.fresh = true
}

// within is how many answers come in a time; 0 while that is not known.
func (w *window) within(d time.Duration) int {
	if w.mean <= 0 {
		return 0
	}
	return int(min(int64(d)*int64(w.size)/int64(w.mean), MaxInFlight))
}

// answered takes how long an answer took, of a child that held so many.
func (w *window) answered(took time.Duration, held int) {
	if w.fresh {
		w.fresh = false
		return
	}
	if held < w.size {
		return
	}
	w.round += took
	if w.n++; w.n >= max(minRound, w.size) {
		w.review()
	}
}

// review ends a round and adapts the window.
func (w *window) review() {
	w.mean = w.round / time.Duration(w.n)
	w.round, w.n = 0, 0
	switch {
	case w.fixed:
	case w.mean <= quick, w.tiny() && w.mean <= 5*quick:
		w.size = min(2*w.size, MaxInFlight)
	case w.mean > slow && !(w.tiny() && w.mean <= 5*slow):
		w.size = max(1, int(int64(w.size)*int64(slow)/int64(w.mean)))
	}
}

// tiny reports whether an answer takes so little of a child's time that most of the
// time passes on the way: on a busy machine a small window would leave it idle.
func (w *window) tiny() bool { return w.mean/time.Duration(w.size) <= quick/10 }

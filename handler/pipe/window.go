package pipe

import (
	"math"
	"math/bits"
	"time"
)

// window is how many deliveries a child may hold. A child that works on one after
// the other gets as many as keep it busy while an answer travels; one that works
// on many side by side gets more for as long as that does not make it slower.
// Which of the two it is shows when its window is doubled: the time from giving to
// answer doubles, too, or it stays; and who answers out of order works on several.
type window struct {
	size  int
	fixed bool
	fresh bool // the first answer tells how long the program takes to start

	round  samples       // answers that came while the window was full
	mean   time.Duration // of the last round
	steady samples       // of all rounds since the window has had this size
	trying bool          // this round tries twice as many as is known to be good
	once   bool          // it was good once
	before time.Duration // the mean before that
	proven int           // side by side, so many did not make it slower
	slower time.Duration // the mean with which they did not
	next   time.Time     // when to try again
	pause  time.Duration // doubles with every try that fails
}

const (
	quick   = 2 * time.Millisecond  // of work, a child may hold
	slow    = 6 * time.Millisecond  // the window shrinks
	tooSlow = 5 * time.Second       // nothing is tried
	atHand  = 20 * time.Millisecond // of work, is to be at hand for it

	minTry = time.Second
	maxTry = 5 * time.Minute

	minRound = 16 // durations vary
	maxRound = 64 // to decide about a try
)

// samples are measurements, of which it knows how far their mean can be trusted.
type samples struct {
	n          int
	sum        float64
	squares    float64
	outOfOrder int
}

func (s *samples) add(d time.Duration) {
	s.n++
	s.sum += float64(d)
	s.squares += float64(d) * float64(d)
}

func (s *samples) mean() time.Duration { return time.Duration(s.sum / float64(s.n)) }

func (s *samples) join(o samples) {
	s.n += o.n
	s.sum += o.sum
	s.squares += o.squares
}

// sure reports whether the mean is good for a comparison.
func (s *samples) sure() bool { return s.n >= maxRound || s.doubt() < s.mean()/4 }

// doubt is how far off the mean may well be: three of its standard errors.
func (s *samples) doubt() time.Duration {
	mean := s.sum / float64(s.n)
	variance := max(0, s.squares/float64(s.n)-mean*mean)
	return time.Duration(3 * math.Sqrt(variance/float64(s.n)))
}

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

// within is how many answers come in a time; 0 while that is not known.
func (w *window) within(d time.Duration) int {
	if w.mean <= 0 {
		return 0
	}
	return int(min(int64(d)*int64(w.size)/int64(w.mean), MaxInFlight))
}

// answered takes how long an answer took, of a child that held so many, and
// whether older ones are still open.
func (w *window) answered(took time.Duration, held int, overtook bool, now time.Time) {
	if w.fresh {
		w.fresh = false
		return
	}
	if held < w.size {
		return
	}
	w.round.add(took)
	if overtook {
		w.round.outOfOrder++
	}
	if w.trying {
		w.judge(now)
	} else if w.round.n >= max(minRound, w.size) {
		w.review(now)
	}
}

// judge decides about a try as soon as that can be done. It asks seldom, lest
// chance has its way in the end.
func (w *window) judge(now time.Time) {
	r := &w.round
	if r.n < max(4, w.size) || bits.OnesCount(uint(r.n)) != 1 && r.n < maxRound {
		return
	}
	m, doubt := r.mean(), r.doubt()
	overtaken := r.outOfOrder > r.n/8
	asQuick := m+doubt < w.before*8/5 && r.sure()
	switch {
	case asQuick && !overtaken && !w.once:
		w.once, w.round = true, samples{} // it may be chance; twice it is none
	case asQuick, overtaken && r.sure() && m <= w.before*3/2: // out of order it answers also when it holds too many
		w.proven, w.slower, w.pause = w.size, m, minTry
		w.settle()
		w.try()
	case m-doubt > w.before*3/2, r.n >= maxRound:
		w.next, w.pause = now.Add(w.pause), min(2*w.pause, maxTry)
		w.settle()
		w.resize(w.size / 2)
	}
}

// review looks at a round and adapts the window.
func (w *window) review(now time.Time) {
	w.settle()
	switch {
	case w.fixed:
	case w.mean <= quick, w.tiny() && w.mean <= 5*quick:
		w.resize(2 * w.size)
	case w.size > w.proven && w.mean > slow && !(w.tiny() && w.mean <= 5*slow):
		w.resize(max(w.proven, int(int64(w.size)*int64(slow)/int64(w.mean))))
	case w.proven > 1 && w.mean > 2*w.slower+slow:
		w.proven = 1
		w.resize(w.size / 2)
	case w.size <= w.proven && w.mean < tooSlow && w.steady.sure() && !now.Before(w.next):
		w.try()
	}
}

// tiny reports whether an answer takes so little of a child's time that most of the
// time passes on the way: on a busy machine a small window would leave it idle.
func (w *window) tiny() bool { return w.mean/time.Duration(w.size) <= quick/10 }

// settle ends the round.
func (w *window) settle() {
	w.mean = w.round.mean()
	w.steady.join(w.round)
	w.round, w.trying, w.once = samples{}, false, false
}

// try doubles the window and looks what that does.
func (w *window) try() {
	if w.size < MaxInFlight {
		before := w.steady.mean()
		w.resize(2 * w.size)
		w.before, w.trying = before, true
	}
}

func (w *window) resize(n int) {
	if n = min(max(n, 1), MaxInFlight); n != w.size {
		w.size, w.steady = n, samples{}
	}
}

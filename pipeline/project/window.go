package project

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// window says how many bulk requests may be under way: as many as are configured while all is well, fewer
// while the index is overloaded, one as a probe while it is unreachable or refused everything, none while the
// projection is parked or a pause is not over.
//
// How many requests the index takes is learned: each refusal takes some away, and doubles how many have to be answered
// before as many are tried again. An overload that a single request meets, too, is answered with pauses.
type window struct {
	mu      sync.Mutex
	most    float64
	size    float64
	level   int       // failures of whole requests in a row
	until   time.Time // closed until then, because of failures
	parked  string    // why nothing is written; empty: it is not
	strain  int       // the length of the last pause, in doublings; halved by what is answered
	pause   time.Time // closed until then, because of refusals
	cut     time.Time // the last refusal: of requests that began before, it says all
	calm    int       // requests that were answered since the last step
	edge    float64   // the size at the last refusal; 0: there was none since the last step beyond it
	need    int       // how many have to be answered before the edge is tried again
	success time.Time // the end of the last request that was answered
	answer  string    // of the last one that was refused, or failed
}

// Bounds of how many requests have to be answered before one more is tried.
const leastCalm, mostCalm = 4, 512

// allowed is how many requests may be under way.
func (w *window) allowed() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	switch {
	case w.parked != "", now.Before(w.until), now.Before(w.pause):
		return 0
	case w.level > 0 || w.strain > 0:
		return 1
	}
	return max(w.size, 1)
}

// answered notes that a request of so many items, begun then, was answered, and that some of them were refused for now.
// A request most of which is refused is as good as refused.
func (w *window) answered(began time.Time, refused, items int, wait func(level int) time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.success, w.level, w.until = time.Now(), 0, time.Time{}
	if refused > 0 {
		w.answer = fmt.Sprintf("%d of the last %d were refused", refused, items)
	}
	switch {
	case began.Before(w.cut):
	case refused > items/2:
		w.refuse(0, wait)
	case refused > 0:
		w.strain /= 2
		w.shrink()
	default:
		w.strain /= 2
		w.grow()
	}
}

// refused notes that a whole request that began then was refused, and returns how long all pause.
func (w *window) refused(began time.Time, asked time.Duration, wait func(level int) time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !began.Before(w.cut) {
		w.refuse(asked, wait)
	} else if until := time.Now().Add(asked); until.After(w.pause) {
		w.pause = until
	}
	return max(time.Until(w.pause), 0)
}

// refuse begins a pause. The caller holds mu.
func (w *window) refuse(asked time.Duration, wait func(level int) time.Duration) {
	w.strain++
	w.pause = time.Now().Add(max(asked, wait(w.strain)))
	w.shrink()
}

// shrink and grow take a step. The caller holds mu.
func (w *window) shrink() {
	w.edge, w.cut, w.calm = w.size, time.Now(), 0
	w.size, w.need = max(math.Floor(w.size*0.75), 1), min(2*max(w.need, leastCalm), mostCalm)
}

func (w *window) grow() {
	need := leastCalm
	if w.edge > 0 && w.size+1 >= w.edge {
		need = w.need
	}
	if w.calm++; w.calm < need {
		return
	}
	w.calm, w.size = 0, min(w.size+1, w.most)
	if w.size > w.edge {
		w.edge, w.need = 0, leastCalm
	}
}

// failed notes that a whole request failed, and returns how long the next one, a probe, waits: as long as the answer
// asked for, at least.
func (w *window) failed(asked time.Duration, wait func(level int) time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.level++
	after := max(asked, wait(w.level))
	w.until = time.Now().Add(after)
	return after
}

// blame notes what the index said to a request that was refused, or failed.
func (w *window) blame(answer string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

// hold is the pause that is going on.
func (w *window) hold() hold {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.until.After(w.pause) {
		return hold{w.until, "degraded", "requests fail: " + w.answer}
	}
	return hold{w.pause, "paused", "the index refuses changes: " + w.answer}
}

// resume ends pauses: an operator says that the index accepts changes again. The next request is a probe.
func (w *window) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until, w.pause = time.Time{}, time.Time{}
}

// park closes it for a reason, or opens it again.
func (w *window) park(why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parked = why
}

func (w *window) why() (parked string, level int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.parked, w.level
}

func (w *window) set(most int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = float64(most)
	w.size = min(max(w.size, 1), w.most)
}

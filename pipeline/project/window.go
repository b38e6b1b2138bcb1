package project

import (
	"sync"
	"time"

	"github.com/pawl-dev/pawl/dispatch"
)

// window says how many bulk requests may be under way: as many as are configured while all is well, fewer
// while the index is overloaded, one as a probe while it is unreachable, none while the projection is parked
// or a probe is not due.
type window struct {
	mu      sync.Mutex
	most    float64
	size    float64
	level   int       // failures of whole requests in a row
	until   time.Time // closed until then
	parked  string    // why nothing is written; empty: it is not
	refused int       // requests with a throttled item in a row
	success time.Time // the end of the last request that was answered
}

var _ dispatch.Window = (*window)(nil)

// Size implements [dispatch.Window].
func (w *window) Size() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.parked != "", time.Now().Before(w.until):
		return 0
	case w.level > 0:
		return 1
	}
	return max(w.size, 1)
}

// Ended implements [dispatch.Window]: the window learns from the writer, which knows more.
func (*window) Ended(dispatch.WindowCall) {}

// answered notes that a request was answered, perhaps with items that were throttled.
func (w *window) answered(throttled bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.success, w.level, w.until = time.Now(), 0, time.Time{}
	if throttled {
		w.refused++
		w.size = max(w.size*0.7, 1)
		return
	}
	w.refused = 0
	w.size = min(w.size+0.25, w.most)
}

// throttled notes that a whole request was refused for now, and returns how often in a row.
func (w *window) throttled() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused++
	w.size = max(w.size/2, 1)
	return w.refused
}

func (w *window) throttles() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return max(w.refused, 1)
}

// failed notes that a whole request that began then failed. lonely tells that none has been answered since:
// then it says nothing about its documents, and the next request, a probe, waits for that long.
func (w *window) failed(began time.Time, wait func(level int) time.Duration) (lonely bool, after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.success.After(began) {
		return false, 0
	}
	w.level++
	after = wait(w.level)
	w.until = time.Now().Add(after)
	return true, after
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

//go:build linux

package crash

import (
	"slices"
	"sync"
	"testing"
	"time"
)

// atOnce is how many tests run beside each other. `go test` needs a -parallel that is larger than the number of tests.
const atOnce = 6

// beside lets a test run beside others, once all that need the machine for themselves are over. Those that take the
// most seconds begin first: the last test to end holds up the run.
func beside(t *testing.T, seconds int) {
	t.Helper()
	t.Parallel()
	turn := waiting{seconds, make(chan struct{})}
	turns.join(turn)
	<-turn.comes
	t.Cleanup(turns.leave)
}

// besideUnless is the same for a test that measures times: where it is to keep a bar it has the machine for itself.
func besideUnless(t *testing.T, alone bool, seconds int) {
	t.Helper()
	if !alone {
		beside(t, seconds)
	}
}

type waiting struct {
	seconds int
	comes   chan struct{}
}

// turns is where tests wait for their turn.
var turns queue

type queue struct {
	opens sync.Once

	mu      sync.Mutex
	free    int
	waiting []waiting
}

// join lets nobody begin before all have joined, which `go test` lets go at once.
func (q *queue) join(w waiting) {
	q.opens.Do(func() {
		time.AfterFunc(time.Second, func() {
			for range atOnce {
				q.leave()
			}
		})
	})
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.free > 0 {
		q.free--
		close(w.comes)
		return
	}
	q.waiting = append(q.waiting, w)
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.free++
		return
	}
	slices.SortFunc(q.waiting, func(a, b waiting) int { return b.seconds - a.seconds })
	close(q.waiting[0].comes)
	q.waiting = q.waiting[1:]
}

//go:build linux

package crash

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// So many tests run beside each other at least; up to mostAtOnce while processors have nothing to do. More than that do
// not end sooner, but starve: brokers that get no processor lose each other, and what is fed at a rate piles up. A
// -parallel larger than the number of tests lets all of them join.
const (
	leastAtOnce = 3
	mostAtOnce  = 6
)

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
	open    bool
	running int
	waiting []waiting
}

// join lets nobody begin before all have joined, which `go test` lets go at once.
func (q *queue) join(w waiting) {
	q.opens.Do(func() { go q.admit() })
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append(q.waiting, w)
	if q.open {
		q.begin(leastAtOnce)
	}
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running--
	q.begin(leastAtOnce)
}

// admit opens the queue, and each second lets one more begin if a third of the processors' time was not used.
func (q *queue) admit() {
	time.Sleep(time.Second)
	q.mu.Lock()
	q.open = true
	q.begin(leastAtOnce)
	q.mu.Unlock()
	for idle, all := processorTime(); ; {
		time.Sleep(time.Second)
		idleNow, allNow := processorTime()
		if 3*(idleNow-idle) > allNow-all {
			q.mu.Lock()
			q.begin(min(q.running+1, mostAtOnce))
			q.mu.Unlock()
		}
		idle, all = idleNow, allNow
	}
}

// begin lets tests begin until so many run.
func (q *queue) begin(atOnce int) {
	for q.running < atOnce && len(q.waiting) > 0 {
		next := 0
		for i, w := range q.waiting {
			if w.seconds > q.waiting[next].seconds {
				next = i
			}
		}
		close(q.waiting[next].comes)
		q.waiting = append(q.waiting[:next], q.waiting[next+1:]...)
		q.running++
	}
}

// processorTime is how long the processors had nothing to do since the machine started, and how long that is in all, in
// hundredths of a second; see proc_stat(5).
func processorTime() (idle, all int) {
	text, _ := os.ReadFile("/proc/stat") // without it: no idle time
	total, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(total) {
		n, _ := strconv.Atoi(field) // the first field is a name
		all += n
		if i == 4 || i == 5 { // idle, and waiting for a disk
			idle += n
		}
	}
	return idle, all
}

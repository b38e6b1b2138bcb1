package sqlite

import (
	"os"
	"time"
)

// queue lets a process that waits long for SQLite's write lock have it. SQLite has no
// queue: waiting processes poll, and the one that has just written usually gets the
// lock again. That is quick, because a running process keeps running, but unfair. So a
// process that has waited for some milliseconds takes a shared lock on a file beside
// the database; a process that sees this before it writes stands back for a moment. It
// is advisory: without it everything works, but less evenly.
type queue struct {
	file  *os.File // nil: not used
	waits bool     // the lock is held: this process waits
}

const (
	// quietWait is how long a process waits before it takes that lock.
	quietWait = 3 * time.Millisecond
	// standBack is how long another process stands back then. A waiting process polls
	// several times in that time.
	standBack = 500 * time.Microsecond
	// While another process writes, the lock is asked for again after that long.
	firstPause   = 20 * time.Microsecond
	longestPause = 150 * time.Microsecond
)

// openQueue opens the file beside a database. If that is impossible, there is no queue.
func openQueue(path string) *queue {
	f, err := os.OpenFile(path+"-turn", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return &queue{}
	}
	return &queue{file: f}
}

// yield stands back if another process has been waiting.
func (q *queue) yield() {
	if q.file == nil {
		return
	}
	if lockFile(q.file, exclusive) {
		unlockFile(q.file)
		return
	}
	time.Sleep(standBack)
}

// announce says, after a while, that this process waits.
func (q *queue) announce(since time.Time) {
	if q.file != nil && !q.waits && time.Since(since) > quietWait {
		q.waits = lockFile(q.file, shared)
	}
}

// withdraw takes that back.
func (q *queue) withdraw() {
	if q.waits {
		q.waits = false
		unlockFile(q.file)
	}
}

func (q *queue) close() {
	if q.file != nil {
		_ = q.file.Close()
	}
}

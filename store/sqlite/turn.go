package sqlite

import (
	"os"
	"time"
)

// turn lets a process that waits long for SQLite's write lock have it. SQLite has no
// queue: waiting processes poll, and the one that has just written usually gets the
// lock again. That is quick, because a running process keeps running, but unfair. So a
// process that has waited for some milliseconds takes a shared lock on a file beside
// the database; a process that sees this before it writes stands back for a moment. It
// is advisory: without it everything works, but less evenly.
type turn struct {
	file *os.File // nil: not used
	says bool     // held while this process waits
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

// openTurn opens the file beside a database. If that is impossible, turns are not used.
func openTurn(path string) *turn {
	f, err := os.OpenFile(path+"-turn", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return &turn{}
	}
	return &turn{file: f}
}

// after stands back if another process has been waiting.
func (t *turn) after() {
	if t.file == nil {
		return
	}
	if lockFile(t.file, exclusive) {
		unlockFile(t.file)
		return
	}
	time.Sleep(standBack)
}

// waiting says, after a while, that this process waits.
func (t *turn) waiting(since time.Time) {
	if t.file != nil && !t.says && time.Since(since) > quietWait {
		t.says = lockFile(t.file, shared)
	}
}

// over takes that back.
func (t *turn) over() {
	if t.says {
		t.says = false
		unlockFile(t.file)
	}
}

func (t *turn) close() {
	if t.file != nil {
		_ = t.file.Close()
	}
}

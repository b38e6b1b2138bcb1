package sqlite

import (
	"os"
	"time"
)

// turn lets a process that waits long for SQLite's write lock have it. SQLite has
// no queue: who waits asks again and again, and who has just written is there
// first. That is quick, because whoever runs goes on running, and unfair. So who
// has waited for some milliseconds says so, by a shared lock on a file beside the
// database; and who sees that before it writes stands back for a moment. It is a
// courtesy and decides nothing: without it everything works, less evenly.
type turn struct {
	file *os.File // nil: no courtesy
	says bool     // that it waits
}

const (
	// quietWait is how long a process waits before it says so.
	quietWait = 3 * time.Millisecond
	// courtesy is how long another one stands back then. Who waits asks several
	// times in that.
	courtesy = 500 * time.Microsecond
	// While another process writes, the lock is asked for again after that long.
	firstPause   = 20 * time.Microsecond
	longestPause = 150 * time.Microsecond
)

// openTurn opens the file beside a database. Where there cannot be one, there is
// no courtesy.
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
	time.Sleep(courtesy)
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

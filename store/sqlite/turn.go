package sqlite

import (
	"os"
	"sync"
	"time"
)

// turn is a place in the queue of the processes that want to write. SQLite
// itself has no queue: who waits sleeps and asks again, and who has just written
// is first again. So each process takes the lock of a file beside the database
// before it asks for SQLite's lock, and passes it on when it has that. It keeps
// order and decides nothing: without it everything works, less evenly.
type turn struct {
	file *os.File // nil: no queue
	held bool

	mu      sync.Mutex
	asked   bool // a goroutine waits for the lock
	wanted  bool // it is to be handed over to take
	closed  bool
	granted chan struct{}
}

// impatience is how long a turn is waited for. It is passed on within
// milliseconds, unless a process was stopped while it had it.
const impatience = time.Second

// openTurn joins the queue of a database; where there cannot be one, it queues
// nowhere.
func openTurn(path string) *turn {
	t := &turn{granted: make(chan struct{}, 1)}
	if f, err := os.OpenFile(path+"-turn", os.O_CREATE|os.O_RDWR, 0o644); err == nil {
		t.file = f
	}
	return t
}

// take waits for the turn of this process.
func (t *turn) take() {
	if t.file == nil {
		return
	}
	t.mu.Lock()
	stuck := t.asked // since an earlier call, which gave up
	if !stuck {
		if t.held = tryLockFile(t.file); t.held {
			t.mu.Unlock()
			return
		}
		t.asked = true
		go t.wait()
	}
	t.wanted = true
	t.mu.Unlock()
	limit := impatience
	if stuck {
		limit = time.Millisecond
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-t.granted:
		t.held = true
	case <-timer.C:
		t.mu.Lock()
		defer t.mu.Unlock()
		t.wanted = false
		select {
		case <-t.granted: // just now
			t.held = true
		default:
		}
	}
}

// wait takes the lock for take, or gives it back if that has given up.
func (t *turn) wait() {
	err := lockFile(t.file)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = false
	switch {
	case t.wanted:
		t.wanted = false
		t.granted <- struct{}{} // without the lock, too: SQLite's decides
	case err == nil && !t.closed:
		unlockFile(t.file)
	}
}

// pass lets the next process have its turn.
func (t *turn) pass() {
	if t.held {
		t.held = false
		unlockFile(t.file)
	}
}

func (t *turn) close() {
	if t.file == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	_ = t.file.Close()
}

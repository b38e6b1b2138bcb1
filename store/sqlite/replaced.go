package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// ErrReplaced is the cause of the error of every call from when the file or its log is
// found not to be the one that the store has open, or not to hold what SQLite wrote: it was
// removed, moved, restored, truncated, or another library for SQLite in this process closed it.
// What is written then is lost, so nothing is reported as done.
var ErrReplaced = errors.New("the file, its -wal or -shm was removed, replaced or overwritten while the store was open")

// lookEvery is how often calls that change nothing look at the files. After a commit
// they are looked at always.
const lookEvery = time.Second

// identity is the file, its log and its shared memory as they were when the store was opened.
type identity struct {
	files  map[string]os.FileInfo // by path
	shm    os.FileInfo            // its shared memory
	looked atomic.Int64           // when, in nanoseconds since 1970
	lost   atomic.Bool
	passed atomic.Int64 // when it was looked whether another library has the file
	shared atomic.Bool  // one had

	mu     sync.Mutex
	inside inside
}

// note takes the files as those of the store, which was opened by the first path; the second one has no symbolic link.
// Its connection is open, so they are there.
func (i *identity) note(named, path string) {
	i.files = map[string]os.FileInfo{}
	for _, p := range []string{named, path, path + "-wal", path + "-shm"} {
		if info, err := os.Stat(p); err == nil {
			i.files[p] = info
		}
	}
	i.shm = i.files[path+"-shm"]
	i.inside = inside{file: piece{info: i.files[path]}, log: piece{info: i.files[path+"-wal"]}, shm: piece{info: i.shm}}
}

// check fails if the files are not those that were noted. There is no way back: what
// other processes found meanwhile is not known.
func (i *identity) check() error {
	now := time.Now().UnixNano()
	i.looked.Store(now)
	if i.shm != nil && !i.shared.Load() && !recent(&i.passed, now) {
		i.passed.Store(now)
		i.shared.Store(!aloneInProcess(i.shm))
	}
	for path, was := range i.files {
		is, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(was, is) {
			i.lost.Store(true)
		}
	}
	if !i.lost.Load() && i.overwritten() {
		i.lost.Store(true)
	}
	if i.lost.Load() {
		return &store.Error{Op: "look at the file", Code: store.ErrLost, Err: ErrReplaced,
			Hint: "stop all processes that have the file open, restore the file or a backup, and start them again: " +
				"docs/runbook/PawlStoreErrors.md"}
	}
	if i.shared.Load() {
		return &store.Error{Op: "look at the file", Code: store.ErrLost, Err: ErrOtherLibrary,
			Hint: oneLibrary + "; stop this process and check the file: docs/runbook/PawlStoreErrors.md"}
	}
	return nil
}

// checkSeldom is check, at most every second.
func (i *identity) checkSeldom() error {
	if !i.lost.Load() && !i.shared.Load() && recent(&i.looked, time.Now().UnixNano()) {
		return nil
	}
	return i.check()
}

// recent reports whether a moment is less than lookEvery before now.
func recent(at *atomic.Int64, now int64) bool {
	age := now - at.Load()
	return age >= 0 && age < int64(lookEvery)
}

//go:build unix

package convert

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pawl-dev/pawl/pipeline"
)

// lockTries is how often the folder of a lock is made again. One that is a link to nowhere can never be made.
const lockTries = 100

// lock takes a folder for this process, until it ends; false if another one has it. The file of the lock is removed at
// the end, and its own folder where nothing else is in it.
func lock(name string) (release func(), ok bool, err error) {
	for try := 1; ; try++ {
		var f *os.File
		err := pipeline.MakeState(filepath.Dir(name))
		if err == nil {
			f, err = os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
		}
		if try < lockTries && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist)) {
			continue // another process has just removed the folder
		}
		if err != nil {
			return nil, false, err
		}
		if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = f.Close()
			return nil, false, nil //nolint:nilerr // that another process has it is no failure of the call
		}
		mine, err := f.Stat()
		if now, gone := os.Stat(name); err == nil && (gone != nil || !os.SameFile(mine, now)) {
			_ = f.Close() // another process has removed it since it was opened
			continue
		}
		return func() {
			_ = os.Remove(name)
			_ = f.Close()
			pipeline.RemoveState(filepath.Dir(name))
		}, true, nil
	}
}

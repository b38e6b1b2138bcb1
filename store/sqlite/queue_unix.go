//go:build unix && !solaris && !aix

package sqlite

import (
	"os"
	"syscall"
)

const (
	shared    = syscall.LOCK_SH
	exclusive = syscall.LOCK_EX
)

// lockFile takes a lock if it is free. The locks of flock belong to an open
// file, unlike those of fcntl, which belong to a process: two stores of one
// process are courteous as well.
func lockFile(f *os.File, how int) bool {
	return syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB) == nil
}

func unlockFile(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }

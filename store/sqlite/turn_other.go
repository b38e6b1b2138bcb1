//go:build !unix || solaris || aix

package sqlite

import "os"

// Without flock there is no queue; every process asks SQLite.

func tryLockFile(*os.File) bool { return true }
func lockFile(*os.File) error   { return nil }
func unlockFile(*os.File)       {}

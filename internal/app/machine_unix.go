//go:build unix

package app

import (
	"fmt"
	"syscall"
)

// freeSpace is how many bytes a process may still write to a folder.
func freeSpace(dir string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return uint64(s.Bavail) * uint64(s.Bsize), nil //nolint:unconvert // the types differ between systems
}

// openFiles is how many files a process may open.
func openFiles() (uint64, error) {
	var r syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r)
	return uint64(r.Cur), err //nolint:unconvert // the types differ between systems
}

// writable tells why this user may not make files in a folder.
func writable(dir string) error {
	const write = 2
	if err := syscall.Access(dir, write); err != nil {
		return fmt.Errorf("no file can be made in %s: %w", dir, err)
	}
	return nil
}

//go:build unix

package doctor

import (
	"os"
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

// writable returns why this user may not write to a file, or make files in a folder. It
// opens nothing.
func writable(path string) error {
	const write = 2
	return os.NewSyscallError("access", syscall.Access(path, write))
}

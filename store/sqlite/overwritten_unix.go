//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// read reads the beginning of the file, and its size, by a descriptor that SQLite has of it: to open and close one
// would drop SQLite's locks. ok is false if there is none.
func (p *piece) read(buf []byte) (n int, size int64, ok bool) {
	if p.info == nil {
		return 0, 0, false
	}
	if n, size, ok = p.try(buf); ok {
		return n, size, true
	}
	const here = "/dev/fd"
	open, _ := os.ReadDir(here)
	for _, e := range open {
		if info, err := os.Stat(filepath.Join(here, e.Name())); err == nil && os.SameFile(info, p.info) {
			p.fd, _ = strconv.Atoi(e.Name())
			if n, size, ok = p.try(buf); ok {
				return n, size, true
			}
		}
	}
	return 0, 0, false
}

// try reads by the descriptor that was used last. It may be another file's meanwhile, which shows afterwards.
func (p *piece) try(buf []byte) (n int, size int64, ok bool) {
	n, err := syscall.Pread(p.fd, buf, 0)
	if err != nil {
		return 0, 0, false
	}
	var is syscall.Stat_t
	was, ok := p.info.Sys().(*syscall.Stat_t)
	if !ok || syscall.Fstat(p.fd, &is) != nil || is.Dev != was.Dev || is.Ino != was.Ino {
		return 0, 0, false
	}
	return n, is.Size, true
}

// Where SQLite locks bytes: those of readers in the file, and the one in the shared memory that says that it is in use.
const (
	readersAt, readersLen = 0x40000002, 510
	memoryAt, memoryLen   = 128, 1
)

// openElsewhere reports whether the file has another name, a hard link, by which it is open in this process or in
// another one. Each name has a log and a shared memory of its own, so that neither sees what the other wrote.
func (c *inside) openElsewhere() bool {
	if c.file.info == nil {
		return false
	}
	is, ok := c.file.info.Sys().(*syscall.Stat_t)
	if !ok || is.Nlink < 2 {
		return false
	}
	if _, _, ok := c.shm.read(nil); !ok {
		return true // a connection of this process has that of the other name
	}
	_, _, ok = c.file.read(nil)
	for range 100 { // another process may be opening it by this name
		if !ok || !lockedByOthers(c.file.fd, readersAt, readersLen) || lockedByOthers(c.shm.fd, memoryAt, memoryLen) {
			return false
		}
		time.Sleep(10 * time.Millisecond)
	}
	return true
}

// lockedByOthers reports whether another process has locked some of these bytes.
func lockedByOthers(fd int, at, length int64) bool {
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: at, Len: length}
	return syscall.FcntlFlock(uintptr(fd), syscall.F_GETLK, &lock) == nil && lock.Type != syscall.F_UNLCK
}

//go:build unix

package sqlite

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
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

//go:build unix

package terminal

import (
	"os"

	"golang.org/x/sys/unix"
)

// Columns is the width of a terminal; 0 for what is none.
func Columns(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}

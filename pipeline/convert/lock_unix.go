//go:build unix

package convert

import (
	"os"
	"syscall"
)

// lock takes a folder for this process, until it ends; false if another one has it.
func lock(name string) (release func(), ok bool, err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, false, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, false, nil //nolint:nilerr // that another process has it is no failure of the call
	}
	return func() { _ = f.Close() }, true, nil
}

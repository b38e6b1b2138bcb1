package systemd

import (
	"syscall"
	"time"
	"unsafe"
)

// clockMonotonic is CLOCK_MONOTONIC.
const clockMonotonic = 1

// monotonic is the machine's monotonic clock, which Go does not tell.
func monotonic() time.Duration {
	var t syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&t)),
		0); errno != 0 {
		return 0
	}
	return time.Duration(t.Nano())
}

package sqlite

import (
	"os"
	"syscall"
	"time"
)

// notice returns a channel that receives soon after a write to the file, and a function
// that ends that. The channel is nil where files cannot be watched.
func notice(path string) (<-chan struct{}, func()) {
	fd, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err != nil {
		return nil, nil
	}
	f := os.NewFile(uintptr(fd), "inotify") // it waits without a thread
	if _, err := syscall.InotifyAddWatch(fd, path, syscall.IN_MODIFY); err != nil {
		_ = f.Close()
		return nil, nil
	}
	written, over := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(over)
		buffer := make([]byte, 4096)
		for {
			if _, err := f.Read(buffer); err != nil {
				return
			}
			select {
			case written <- struct{}{}:
			default:
			}
			// The kernel merges equal events that are unread.
			time.Sleep(lookAtMost)
		}
	}()
	return written, func() {
		_ = f.Close()
		<-over
	}
}

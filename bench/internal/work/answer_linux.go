package work

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// answers returns a wait for so many at once, as a handler waits that has asked a
// server: for a descriptor, by the runtime's poller. The answer comes by the kernel's
// clock. [time.Sleep] waits by the runtime's own timers, which an idle processor looks
// at once in a millisecond (runtime/netpoll_epoll.go).
func answers(atOnce int) (wait func(time.Duration), done func(), err error) {
	type timer struct {
		fd   int
		file *os.File
	}
	free := make(chan *timer, atOnce)
	done = func() {
		for range len(free) {
			_ = (<-free).file.Close()
		}
	}
	for range atOnce {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("timerfd_create: %w", err)
		}
		free <- &timer{fd, os.NewFile(uintptr(fd), "timer")}
	}
	wait = func(d time.Duration) {
		t := <-free
		err := unix.TimerfdSettime(t.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
		if err == nil {
			var expired [8]byte
			_, err = t.file.Read(expired[:])
		}
		if err != nil && !errors.Is(err, os.ErrClosed) {
			panic(fmt.Sprintf("wait for a timer: %v", err))
		}
		free <- t
	}
	return wait, done, nil
}

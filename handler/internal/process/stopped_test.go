//go:build unix

package process

import (
	"syscall"
	"testing"
	"time"
)

// A guard that somebody has stopped does not keep the process from its end.
func TestCloseWithAGuardThatIsStopped(t *testing.T) {
	l, err := NewLauncher()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.watch.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Close()
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		_ = l.watch.Process.Signal(syscall.SIGCONT)
		t.Error("it waits for the guard")
		<-done
	}
}

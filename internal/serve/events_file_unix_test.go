//go:build unix

package serve

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A pipe is not opened anew: without a reader that would take for ever.
func TestHangupLeavesAPipeOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	read := func() *os.File {
		f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	reader := read()
	e, err := openEventsFile(path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	before := e.file
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- e.reopen() }()
	select {
	case err := <-done:
		if err != nil || e.file != before {
			t.Errorf("it was opened anew: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for somebody who reads")
		reader = read()
		<-done
		_ = reader.Close()
	}
	if err := e.close(); err != nil {
		t.Error(err)
	}
}

//go:build unix

package logs_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/observe/logs"
)

// A pipe is not opened anew: without a reader that would take for ever.
func TestLinesLeaveAPipeOpen(t *testing.T) {
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
	e, err := logs.OpenLines(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- e.Reopen() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for somebody who reads")
		reader = read()
		<-done
		_ = reader.Close()
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// A pipe that nobody reads, or whose reader takes nothing, stops neither the start nor a reload nor the end.
func TestNobodyWaitsForAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	soon := func(what string, do func()) {
		t.Helper()
		done := make(chan struct{})
		go func() { do(); close(done) }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s waits", what)
		}
	}
	var l *logs.Lines
	soon("the start", func() {
		o, err := logs.OpenFile(logs.FileConfig{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		o.Close()
		if l, err = logs.OpenLines(path); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := l.Write([]byte("one\n")); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("without a reader: %v", err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write([]byte("two\n")); err != nil {
		t.Errorf("with a reader: %v", err)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = l.Write(make([]byte, 4<<20)) // more than a pipe holds
	}()
	time.Sleep(100 * time.Millisecond)
	soon("a reload", func() { _ = l.Reopen() })
	soon("the end", func() {
		if l.Close() == nil {
			t.Error("it is closed while somebody writes")
		}
	})
	_ = reader.Close()
	<-written
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

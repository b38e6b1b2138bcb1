//go:build linux

// Package journal is the log that a test's worker keeps of what it does, apart
// from everything that Pawl says of itself: a line when it begins a delivery, and
// a line with its verdict before Pawl can read it.
//
// A line is one write to a file opened for appending, so that what was written
// survives kill -9 of the writer, and a reader may read meanwhile.
package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
	"unsafe"
)

// What a worker writes down.
const (
	Up    = "up"    // it runs; ID is its process id, Verdict its parent's
	Start = "start" // it begins a delivery
	End   = "end"   // it is about to write its verdict
	Dying = "dying" // it is about to kill itself, or its parent, over a delivery
)

// Line is one thing that a worker did.
type Line struct {
	What    string
	At      time.Duration // of [Now]
	ID      string
	Token   string
	Attempt int
	Key     string
	Verdict string // of an End: ack, retry, dead or release
	Body    string // of a Start: as the message has it
}

// Now is the time by CLOCK_MONOTONIC, which all processes of a machine share and
// nobody sets.
func Now() time.Duration {
	const clockMonotonic = 1
	var ts syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	if errno != 0 {
		panic(errno) // there is no system without this clock
	}
	return time.Duration(ts.Nano())
}

// Writer appends lines to a file of its own. It is safe for concurrent use.
type Writer struct{ file *os.File }

// Create makes a file in folder that no other process writes to.
func Create(folder string) (*Writer, error) {
	name := fmt.Sprintf("%d-%d.journal", os.Getpid(), Now())
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_APPEND|os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &Writer{f}, nil
}

// Write stamps l with the time and appends it.
func (w *Writer) Write(l Line) error {
	l.At = Now()
	b, err := json.Marshal(l)
	if err == nil {
		_, err = w.file.Write(append(b, '\n'))
	}
	return err
}

// Read returns the lines of a file. A last line without an end, of a writer that
// died in the middle of it, is left out.
func Read(file string) (lines []Line, err error) {
	data, err := os.ReadFile(file)
	for row := range bytes.Lines(data) {
		if row[len(row)-1] != '\n' {
			break
		}
		var l Line
		if err := json.Unmarshal(row, &l); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		lines = append(lines, l)
	}
	return lines, err
}

// ReadAll returns the lines of all files in folder.
func ReadAll(folder string) ([]Line, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.journal"))
	if err != nil {
		return nil, err
	}
	var all []Line
	for _, file := range files {
		lines, err := Read(file)
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	return all, nil
}

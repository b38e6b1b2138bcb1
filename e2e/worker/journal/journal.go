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
	"io"
	"math"
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

// Tail reads the files of a folder, each line once. It is not safe for concurrent use.
type Tail struct {
	folder string
	read   map[string]int64 // bytes, by file
}

// Follow begins before the first line of each file in folder.
func Follow(folder string) *Tail { return &Tail{folder, map[string]int64{}} }

// Next returns the lines that were written since the last call.
func (t *Tail) Next() ([]Line, error) {
	files, err := filepath.Glob(filepath.Join(t.folder, "*.journal"))
	if err != nil {
		return nil, err
	}
	var all []Line
	for _, file := range files {
		lines, read, err := linesOf(file, t.read[file])
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
		t.read[file] += read
	}
	return all, nil
}

// ReadAll returns the lines of all files in folder.
func ReadAll(folder string) ([]Line, error) { return Follow(folder).Next() }

// Read returns the lines of a file.
func Read(file string) ([]Line, error) {
	lines, _, err := linesOf(file, 0)
	return lines, err
}

// linesOf returns the lines that begin after the first from bytes of a file, and how many bytes they are. A last line
// without an end, of a writer that died in the middle of it or is still writing, is left out.
func linesOf(file string, from int64) (lines []Line, read int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = f.Close() }() // read only
	data, err := io.ReadAll(io.NewSectionReader(f, from, math.MaxInt64-from))
	if err != nil {
		return nil, 0, err
	}
	for row := range bytes.Lines(data) {
		if row[len(row)-1] != '\n' {
			break
		}
		var l Line
		if err := json.Unmarshal(row, &l); err != nil {
			return nil, 0, fmt.Errorf("%s: %w", file, err)
		}
		lines, read = append(lines, l), read+int64(len(row))
	}
	return lines, read, nil
}

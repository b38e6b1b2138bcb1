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
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
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

// Line is one thing that a worker did. No field holds a space.
type Line struct {
	What    string
	At      time.Duration // of [Now]
	ID      string
	Token   string
	Attempt int
	Key     string // "-" without one
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
	key, verdict, body := l.Key, l.Verdict, l.Body
	for _, field := range []*string{&key, &verdict, &body} {
		if *field == "" {
			*field = "-"
		}
	}
	b := make([]byte, 0, 160)
	b = fmt.Appendf(b, "%s %d %s %s %d %s %s %s\n", l.What, Now(), l.ID, l.Token, l.Attempt, key, verdict, body)
	_, err := w.file.Write(b)
	return err
}

// Read returns the lines of a file. A last line without an end, of a writer that
// died in the middle of it, is left out.
func Read(file string) ([]Line, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var lines []Line
	for row := range bytes.Lines(data) {
		if row[len(row)-1] != '\n' {
			break
		}
		l, err := parse(string(row[:len(row)-1]))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		lines = append(lines, l)
	}
	return lines, nil
}

func parse(row string) (Line, error) {
	f := strings.SplitN(row, " ", 8)
	if len(f) != 8 {
		return Line{}, fmt.Errorf("%d fields in %q", len(f), row)
	}
	at, err := strconv.ParseInt(f[1], 10, 64)
	if err != nil {
		return Line{}, err
	}
	attempt, err := strconv.Atoi(f[4])
	if err != nil {
		return Line{}, err
	}
	return Line{What: f[0], At: time.Duration(at), ID: f[2], Token: f[3], Attempt: attempt, Key: f[5], Verdict: f[6],
		Body: f[7]}, nil
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

package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Output is where programs write to: whole lines at a time, so that those of
// several do not mix within a line. What cannot be written is dropped; a program
// is never held up by it, and its work does not fail. A nil Output drops everything.
type Output struct {
	w      io.Writer
	failed func(error) // may be nil

	mu   sync.Mutex
	told bool
	dead bool // its reader is gone
}

// NewOutput returns an output that writes to w. failed, if not nil, is called with the
// first write error.
func NewOutput(w io.Writer, failed func(error)) *Output { return &Output{w: w, failed: failed} }

// Write writes whole lines. It never fails.
func (o *Output) Write(b []byte) (int, error) {
	if o == nil || len(b) == 0 {
		return len(b), nil
	}
	if err := o.write(b); err != nil && o.failed != nil {
		o.failed(err) // outside of the lock: it may write elsewhere, and that may fail, too
	}
	return len(b), nil
}

// write returns the first error there is. A full disk may have room later; a pipe
// that nobody reads stays one.
func (o *Output) write(b []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.dead {
		return nil
	}
	_, err := o.w.Write(b)
	o.dead = errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe)
	if err == nil || o.told {
		return nil
	}
	o.told = true
	return err
}

// longLine is where a line without an end is broken.
const longLine = 64 << 10

// Lines cuts what a program writes into lines, for one or more takers.
type Lines struct {
	Prefix string
	Out    *Output
	Tail   *Tail // may be nil
	rest   []byte
	buf    []byte
}

// Write takes the next piece. It never fails.
func (l *Lines) Write(b []byte) (int, error) {
	n := len(b)
	l.buf = l.buf[:0]
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			l.rest = append(l.rest, b...)
			if len(l.rest) > longLine {
				l.line(nil)
			}
			break
		}
		l.line(b[:i])
		b = b[i+1:]
	}
	_, _ = l.Out.Write(l.buf)
	return n, nil
}

// line ends a line with b.
func (l *Lines) line(b []byte) {
	if len(l.rest) > 0 {
		l.rest = append(l.rest, b...)
		b = l.rest
		l.rest = l.rest[:0]
	}
	if l.Tail != nil {
		l.Tail.add(b)
	}
	l.buf = append(l.buf, l.Prefix...)
	l.buf = append(l.buf, b...)
	l.buf = append(l.buf, '\n')
}

// end passes on a last line that has no end.
func (l *Lines) end() {
	if len(l.rest) > 0 {
		l.buf = l.buf[:0]
		l.line(nil)
		_, _ = l.Out.Write(l.buf)
	}
}

// How much of what a program wrote to stderr becomes the reason of its failure.
const (
	tailLines = 12
	tailBytes = 4 << 10
)

// Tail keeps the last lines. It is safe for concurrent use.
type Tail struct {
	mu    sync.Mutex
	lines []string
	bytes int
}

func (t *Tail) add(line []byte) {
	line = bytes.TrimRight(line, " \t\r")
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(line) == 0 && len(t.lines) == 0 {
		return
	}
	s := string(line[:min(len(line), tailBytes/2)])
	t.lines = append(t.lines, s)
	t.bytes += len(s)
	for len(t.lines) > tailLines || t.bytes > tailBytes && len(t.lines) > 1 {
		t.bytes -= len(t.lines[0])
		t.lines = t.lines[1:]
	}
}

// Reason returns why a program failed: in the first line the last thing that it
// said and how it ended, because lists show, and fingerprints are made of, the
// first line; below it all that is kept of what it said, if there is more.
func (t *Tail) Reason(how string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	said := t.lines
	for len(said) > 0 && said[len(said)-1] == "" {
		said = said[:len(said)-1]
	}
	switch len(said) {
	case 0:
		return how
	case 1:
		return said[0] + " (" + how + ")"
	}
	return strings.TrimSpace(said[len(said)-1]) + " (" + how + ")\n" + strings.Join(said, "\n")
}

// leftOver is how long output may stay open after the program has ended.
const leftOver = time.Second

// Read copies a program's output into l until it ends.
func Read(f *os.File, l *Lines) {
	_, _ = io.Copy(l, f)
	l.end()
	_ = f.Close()
}

// Package logsink writes logs and the output of programs without ever waiting for their readers. A terminal that is
// paused, a full pipe or a log shipper that hangs must not hold up work: what does not fit into the buffer is dropped
// and counted.
package logsink

import (
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	room = 4 << 20 // bytes that wait for a slow reader
	// idle is how long Close waits for a reader that takes nothing.
	idle = time.Second
)

// Sink is a writer that does not block. It is safe for concurrent use. A write is passed on whole, or dropped whole.
type Sink struct {
	w io.Writer

	mu      sync.Mutex
	more    sync.Cond
	waiting [][]byte
	bytes   int
	taken   uint64 // writes that the reader took
	dropped uint64 // since the reader was last told
	full    uint64 // dropped in all because there was no room
	failed  uint64 // dropped in all because the reader is gone
	err     error  // of the write that was last passed on
	closed  bool
	done    chan struct{}
}

// New begins to pass on to w.
func New(w io.Writer) *Sink {
	s := &Sink{w: w, done: make(chan struct{})}
	s.more.L = &s.mu
	go s.pass()
	return s
}

// Write takes p, or drops it. The error is not about p, but about the last write that was passed on: a caller that
// keeps writing learns that the output cannot be written.
func (s *Sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		s.failed++
	case s.bytes+len(p) > room:
		s.full++
		s.dropped++
	default:
		s.waiting = append(s.waiting, append([]byte(nil), p...))
		s.bytes += len(p)
		s.more.Signal()
	}
	return len(p), s.err
}

// Dropped returns how many writes were dropped: because the reader was slow, and because it was gone.
func (s *Sink) Dropped() (full, failed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.full, s.failed
}

// Close passes on what waits, for as long as the reader takes some of it every second.
func (s *Sink) Close() {
	s.mu.Lock()
	s.closed = true
	s.more.Signal()
	s.mu.Unlock()
	for before := s.progress(); ; before = s.progress() {
		t := time.NewTimer(idle)
		select {
		case <-s.done:
			t.Stop()
			return
		case <-t.C:
		}
		if s.progress() == before {
			return
		}
	}
}

func (s *Sink) progress() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// pass writes what waits, one write after the other.
func (s *Sink) pass() {
	defer close(s.done)
	for {
		p, lost, ok := s.next()
		if !ok {
			return
		}
		if lost > 0 {
			_, _ = fmt.Fprintf(s.w, "%d lines were dropped here: their reader was slow\n", lost)
		}
		_, err := s.w.Write(p)
		s.mu.Lock()
		s.bytes -= len(p)
		s.taken++
		s.err = err
		if err != nil {
			s.failed++
		}
		s.mu.Unlock()
	}
}

// next waits for something to write; lost is how much was dropped before it.
func (s *Sink) next() (p []byte, lost uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waiting) == 0 && !s.closed {
		s.more.Wait()
	}
	if len(s.waiting) == 0 {
		return nil, 0, false
	}
	p, s.waiting = s.waiting[0], s.waiting[1:]
	if s.bytes < room/2 { // there is room again: the reader learns of the gap
		lost, s.dropped = s.dropped, 0
	}
	return p, lost, true
}

package pipeline

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// How often a board is drawn anew, and how often its plain line is written where there is no terminal.
const (
	boardEvery = 250 * time.Millisecond
	lineEvery  = 10 * time.Second
)

// Board shows the progress of long work: lines that are redrawn in place on a terminal, one plain line every ten
// seconds elsewhere. Make one with [Invocation.Board].
type Board struct {
	out   io.Writer
	lines func() []string
	line  func() string

	stop chan struct{}
	done sync.WaitGroup
	rows int // drawn last
}

// Board begins to show lines on a terminal, or line elsewhere, until Stop. Nothing is shown with --quiet. Both
// functions are called from another goroutine, one at a time.
func (in *Invocation) Board(lines func() []string, line func() string) *Board {
	b := &Board{out: in.Stderr, lines: lines, line: line, stop: make(chan struct{})}
	switch {
	case in.Quiet:
	case in.Terminal:
		b.done.Go(func() { b.loop(boardEvery, b.draw); b.draw() })
	default:
		b.done.Go(func() { b.loop(lineEvery, b.write) })
	}
	return b
}

// Stop ends it. On a terminal the last state stays.
func (b *Board) Stop() {
	close(b.stop)
	b.done.Wait()
}

func (b *Board) loop(every time.Duration, show func()) {
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			show()
		case <-b.stop:
			return
		}
	}
}

func (b *Board) write() { _, _ = fmt.Fprintln(b.out, b.line()) }

// draw replaces what was drawn last.
func (b *Board) draw() {
	var text strings.Builder
	if b.rows > 0 {
		fmt.Fprintf(&text, "\x1b[%dA", b.rows)
	}
	lines := b.lines()
	for _, line := range lines {
		text.WriteString("\r\x1b[2K" + line + "\n")
	}
	for range b.rows - len(lines) {
		text.WriteString("\x1b[2K\n")
	}
	b.rows = max(b.rows, len(lines))
	_, _ = io.WriteString(b.out, text.String())
}

package pipeline

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// How often a board is redrawn, and how often its plain line is written where there is no terminal.
const (
	boardEvery = 250 * time.Millisecond
	lineEvery  = 10 * time.Second
)

// Board shows the progress of long work: lines that are redrawn in place on a terminal, one plain line every ten
// seconds elsewhere. Make one with [Invocation.Board].
type Board struct {
	out  io.Writer
	line func() string

	stop chan struct{}
	done sync.WaitGroup
}

// Board begins to show lines on a terminal, or line elsewhere, until Stop. Nothing is shown with --quiet. Both
// functions are called from another goroutine, one at a time.
func (in *Invocation) Board(lines func() []string, line func() string) *Board {
	b := &Board{out: in.Stderr, line: line, stop: make(chan struct{})}
	switch {
	case in.Quiet:
	case in.Show != nil:
		b.done.Go(func() {
			b.loop(boardEvery, func() { in.Show(lines()) })
			in.Show(lines())
			in.Show(nil)
		})
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

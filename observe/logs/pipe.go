package logs

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/pawl-dev/pawl/observe/figures"
)

// Pipe is a writer that does not wait for its reader: for the output of programs, beside the log. A terminal that is
// paused or a full pipe holds nothing up; what does not fit is dropped, counted, and told of. It is safe for concurrent
// use. A write is passed on whole, or dropped whole.
type Pipe struct {
	q   *queue
	seq atomic.Uint64
}

// pipeBytes are what waits for a slow reader at most.
const pipeBytes = 4 << 20

// NewPipe begins to pass on to w. The name is that of its sink in metrics.
func NewPipe(name string, w io.Writer) *Pipe {
	q := newQueue(Sink{Name: name, Level: slog.LevelDebug, Buffer: pipeBytes, Output: NewConsole(w, nil)})
	q.bytes = pipeBytes
	q.tell = func(lost *loss) []byte {
		return fmt.Appendf(nil, "%d lines were dropped here: their reader was slow\n", lost.n())
	}
	go q.run() // a reader that hangs may keep it beyond the end
	return &Pipe{q: q}
}

// Write takes p, or drops it. The error is not about p, but about the last write that was passed on: a caller that
// keeps writing learns that the output cannot be written.
func (p *Pipe) Write(text []byte) (int, error) {
	b := &block{text: slices.Clone(text),
		recs: []rec{{seq: p.seq.Add(1), text: len(text), level: slog.LevelInfo}}}
	b.users.Store(1)
	p.q.offer(b)
	b.release()
	p.q.mu.Lock()
	defer p.q.mu.Unlock()
	return len(text), p.q.err
}

// Figures are its counts.
func (p *Pipe) Figures() figures.LogSink { return p.q.figures() }

// Close passes on what waits, for as long as the reader takes some of it every second.
func (p *Pipe) Close() { p.q.close() }

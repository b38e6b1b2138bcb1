package observe

import (
	"sync"
	"sync/atomic"
)

// Board is a [Consumer] that keeps the newest events and passes new ones to watchers.
type Board struct {
	mu       sync.Mutex
	ring     []Envelope
	next     int // where the next event goes
	length   int
	watchers map[*Watcher]struct{}
}

// NewBoard returns a board for the newest size events, at least one.
func NewBoard(size int) *Board {
	return &Board{ring: make([]Envelope, max(size, 1)), watchers: map[*Watcher]struct{}{}}
}

// Consume implements [Consumer].
func (b *Board) Consume(e Envelope) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ring[b.next] = e
	b.next = (b.next + 1) % len(b.ring)
	b.length = min(b.length+1, len(b.ring))
	for w := range b.watchers {
		select {
		case w.ch <- e:
		default:
			w.missed.Add(1)
		}
	}
	return nil
}

// Newest returns the events on the board, the oldest first.
func (b *Board) Newest() []Envelope {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newest()
}

func (b *Board) newest() []Envelope {
	all := make([]Envelope, 0, b.length)
	for i := range b.length {
		all = append(all, b.ring[(b.next-b.length+i+len(b.ring))%len(b.ring)])
	}
	return all
}

// Watcher gets the events that come to a [Board].
type Watcher struct {
	board  *Board
	ch     chan Envelope
	missed atomic.Uint64
}

// Subscribe returns what is on the board and a watcher of what comes next, without a
// gap in between. Up to buffer events wait for a slow watcher; further ones are missed,
// and counted. Close ends it.
func (b *Board) Subscribe(buffer int) ([]Envelope, *Watcher) {
	w := &Watcher{board: b, ch: make(chan Envelope, max(buffer, 1))}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.watchers[w] = struct{}{}
	return b.newest(), w
}

// Events is the channel of events; Close closes it.
func (w *Watcher) Events() <-chan Envelope { return w.ch }

// Missed is how many events were missed because the watcher was too slow.
func (w *Watcher) Missed() uint64 { return w.missed.Load() }

// Close ends the watching. It may be called twice.
func (w *Watcher) Close() {
	w.board.mu.Lock()
	defer w.board.mu.Unlock()
	if _, ok := w.board.watchers[w]; ok {
		delete(w.board.watchers, w)
		close(w.ch)
	}
}

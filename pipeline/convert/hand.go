package convert

import (
	"context"
	"sync"
)

// hand holds what is appended and not yet done: a bounded number of files, and of bytes in memory.
type hand struct {
	mu       sync.Mutex
	wake     chan struct{} // closed and made anew when something has left
	files    map[string]*held
	most     int
	bytes    int64
	maxBytes int64
}

type held struct {
	record
	file   string
	inWork bool
}

func newHand(most int, maxBytes int64) *hand {
	return &hand{wake: make(chan struct{}), files: map[string]*held{}, most: most, maxBytes: maxBytes}
}

// tryAdd adds a file if there is room.
func (h *hand) tryAdd(rec record, file string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.put(rec, file)
}

// add waits until there is room.
func (h *hand) add(ctx context.Context, rec record, file string) error {
	return h.wait(ctx, func() bool { return h.put(rec, file) })
}

func (h *hand) put(rec record, file string) bool {
	if len(h.files) >= h.most {
		return false
	}
	h.files[rec.Path] = &held{record: rec, file: file}
	return true
}

// wait calls try, under the lock, until it succeeds.
func (h *hand) wait(ctx context.Context, try func() bool) error {
	for {
		h.mu.Lock()
		ok, wake := try(), h.wake
		h.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (h *hand) change(f func()) {
	h.mu.Lock()
	f()
	close(h.wake)
	h.wake = make(chan struct{})
	h.mu.Unlock()
}

// get returns what is held of a path; nil if it is not.
func (h *hand) get(path string) *held {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.files[path]
}

func (h *hand) remove(path string) { h.change(func() { delete(h.files, path) }) }

func (h *hand) setInWork(f *held, on bool) {
	h.mu.Lock()
	f.inWork = on
	h.mu.Unlock()
}

// take waits for memory for a document. One that is larger than all of it is taken alone.
func (h *hand) take(ctx context.Context, size int64) error {
	return h.wait(ctx, func() bool {
		if h.bytes > 0 && h.bytes+size > h.maxBytes {
			return false
		}
		h.bytes += size
		return true
	})
}

func (h *hand) giveBack(size int64) { h.change(func() { h.bytes -= size }) }

// empty waits until nothing is held.
func (h *hand) empty(ctx context.Context) error {
	return h.wait(ctx, func() bool { return len(h.files) == 0 })
}

// status is that of a file in hand; empty if it is not.
func (h *hand) status(path string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch f := h.files[path]; {
	case f == nil:
		return ""
	case f.inWork:
		return processing
	case f.Failures > f.Forgiven:
		return failed
	}
	return pending
}

package convert

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/pawl-dev/pawl"
)

// hand holds the files that are appended and not yet done. Their number is bounded, and so are the bytes in memory.
type hand struct {
	mu     sync.Mutex
	files  map[string]*held
	most   int64
	room   *semaphore.Weighted // for files
	memory *semaphore.Weighted // for their bytes
}

type held struct {
	record
	file   string
	sent   bool // its message is in the store
	inWork bool
}

func newHand(most int64) *hand {
	return &hand{files: map[string]*held{}, most: most, room: semaphore.NewWeighted(most),
		memory: semaphore.NewWeighted(maxMemory)}
}

// tryAdd adds a file if there is room.
func (h *hand) tryAdd(rec record, file string) bool {
	if !h.room.TryAcquire(1) {
		return false
	}
	h.mu.Lock()
	h.files[rec.Path] = &held{record: rec, file: file}
	h.mu.Unlock()
	return true
}

// appended notes that the messages of files are in the store.
func (h *hand) appended(msgs []pawl.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range msgs {
		if f := h.files[string(msgs[i].Body)]; f != nil {
			f.sent = true
		}
	}
}

// lost returns the files whose messages are not among those that are in the store, and that are not in work.
func (h *hand) lost(there map[string]bool) (all []*held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for path, f := range h.files {
		if f.sent && !f.inWork && !there[path] {
			all = append(all, f)
		}
	}
	return all
}

// wait waits until there is room for n files.
func (h *hand) wait(ctx context.Context, n int64) error {
	if h.room.Acquire(ctx, n) != nil {
		return context.Cause(ctx)
	}
	h.room.Release(n)
	return nil
}

// get returns what is held of a path; nil if it is not.
func (h *hand) get(path string) *held {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.files[path]
}

func (h *hand) remove(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.files[path] != nil {
		delete(h.files, path)
		h.room.Release(1)
	}
}

// change changes what others may look at.
func (h *hand) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// count tells of how many files something is true.
func (h *hand) count(such func(*held) bool) (n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.files {
		if such(f) {
			n++
		}
	}
	return n
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

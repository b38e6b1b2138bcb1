package wecom

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

const (
	handledKept = 4 * 24 * time.Hour // WeCom returns messages of three days
	// handledWaiting is how many messages may wait for their mark before add writes it itself.
	handledWaiting = 1000
)

// handled remembers the messages that were handled, so that the handler is not asked again for one that is delivered
// again. The marks are written in batches after the messages are done: one that is lost when the process dies costs a
// second call of the handler, but no second reply, because the ids of replies follow from their message.
type handled struct {
	marks store.Shared
	scope string
	log   *slog.Logger
	wake  chan struct{}

	mu      sync.Mutex
	waiting map[string]bool
}

func newHandled(m store.Shared, scope string, log *slog.Logger) *handled {
	return &handled{marks: m, scope: scope, log: log, wake: make(chan struct{}, 1), waiting: map[string]bool{}}
}

// has reports whether a message was handled before.
func (h *handled) has(ctx context.Context, id string) (bool, error) {
	h.mu.Lock()
	waits := h.waiting[id]
	h.mu.Unlock()
	if waits {
		return true, nil
	}
	marks, err := h.marks.GetMarks(ctx, h.scope, id)
	return len(marks) > 0, err
}

// add takes down that a message was handled.
func (h *handled) add(ctx context.Context, id string) error {
	h.mu.Lock()
	full := len(h.waiting) >= handledWaiting
	if !full {
		h.waiting[id] = true
	}
	h.mu.Unlock()
	if full {
		return h.put(ctx, id)
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
	return nil
}

// run writes marks until ctx ends.
func (h *handled) run(ctx context.Context) {
	var failing bool
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		for {
			err := h.flush(ctx)
			if err == nil || ctx.Err() != nil {
				failing = false
				break
			}
			if !failing {
				h.log.Warn("handled messages could not be marked; it is tried again", "error", err)
			}
			failing = true
			_ = store.Sleep(ctx, time.Second)
		}
	}
}

// close writes what is left when no message is in work any more.
func (h *handled) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := h.flush(ctx); err != nil {
		h.log.Warn("handled messages could not be marked; the handler may be asked for them again", "error", err)
	}
}

func (h *handled) flush(ctx context.Context) error {
	h.mu.Lock()
	ids := slices.Collect(maps.Keys(h.waiting))
	h.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	if err := h.put(ctx, ids...); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		delete(h.waiting, id)
	}
	return nil
}

func (h *handled) put(ctx context.Context, ids ...string) error {
	marks := make([]pawl.Mark, len(ids))
	for i, id := range ids {
		marks[i] = pawl.Mark{Scope: h.scope, Key: id, For: handledKept, If: pawl.AnyVersion}
	}
	_, err := h.marks.PutMarks(ctx, marks...)
	return err
}

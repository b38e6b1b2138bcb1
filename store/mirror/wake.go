package mirror

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// waker wakes claimers for both stores.
type waker struct {
	layer
	here, there store.Waker // nil where that store has none
}

// newWaker returns the layer that wakes; nil if neither store does.
func newWaker(s *Store, below store.Store) *waker {
	w := &waker{layer: layer{s, below}}
	w.here, _ = store.As[store.Waker](s.primary)
	w.there, _ = store.As[store.Waker](s.mirrored)
	if w.here == nil { // then claimers poll anyway
		return nil
	}
	return w
}

// Listen implements [store.Waker]. It listens at the mirrored store from when a topic is
// claimed there: for some stores, listening is what makes a process take part.
func (w *waker) Listen(ctx context.Context, topics ...string) (<-chan struct{}, error) {
	ch, err := w.here.Listen(ctx, topics...)
	if err != nil || w.there == nil || w.stages.plans == nil {
		return ch, err
	}
	out := make(chan struct{}, 1)
	if !w.background(func() { w.both(ctx, topics, ch, out) }) {
		return nil, &store.Error{Op: "listen", Code: store.ErrClosed}
	}
	return out, nil
}

// both passes on what either store says, until ctx ends or the store is closed.
func (w *waker) both(ctx context.Context, topics []string, here <-chan struct{}, out chan<- struct{}) {
	look := time.NewTicker(refreshEvery)
	defer look.Stop()
	var there <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.life.Done():
			return
		case <-here:
		case <-there:
		case <-look.C:
			if moved := w.moved(topics); there == nil && len(moved) > 0 {
				there, _ = w.there.Listen(ctx, moved...) // again with the next tick
			}
			continue
		}
		select {
		case out <- struct{}{}:
		default:
		}
	}
}

// moved are those topics that are claimed in the mirrored store.
func (w *waker) moved(topics []string) []string {
	return slices.DeleteFunc(slices.Clone(topics), func(t string) bool { return !w.stages.route(t).there() })
}

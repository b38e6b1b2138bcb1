package app

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// gate is a store that hands out no more than there is room for, and no faster
// than a rate: what is not claimed waits where others can take it, and its
// deadline does not run.
type gate struct {
	store.Store
	room func() (lanes, run int) // nil: there always is
	rate *bucket                 // nil: there is none
	wake func()                  // claims are worth a try again

	fresh  atomic.Bool // something was appended since the last claim
	probed time.Time   // when a claim was let through beyond the room

	mu       sync.Mutex
	pending  int // runs handed out whose handler has not begun
	pendedAt time.Time
	length   float64 // of runs, as they came of late
}

// Unwrap returns the store behind the gate.
func (g *gate) Unwrap() store.Store { return g.Store }

// Claim claims as much of wants as may be.
func (g *gate) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	total := 0
	for _, w := range wants {
		total += w.Limit
	}
	allowed, run := g.allowed(total)
	if allowed <= 0 {
		return nil, nil
	}
	ds, err := g.Store.Claim(ctx, share(wants, allowed, run), lease)
	g.handedOut(ds, allowed)
	return ds, err
}

// allowed returns how many of so many messages may be claimed now, and in runs of
// how many; 0 leaves that as it is. Room is for lanes; how many messages come of
// one is taken from what came before.
func (g *gate) allowed(n int) (allowed, run int) {
	if g.room != nil {
		var lanes int
		lanes, run = g.room()
		g.mu.Lock()
		if time.Since(g.pendedAt) > pendingFor {
			g.pending = 0
		}
		lanes -= g.pending
		n = min(n, int(float64(lanes)*max(1, g.length)))
		if news := g.fresh.Swap(false); news && n <= 0 && time.Since(g.probed) > probeGap {
			n, run, g.probed = 1, 1, time.Now()
		}
		g.mu.Unlock()
	}
	if g.rate != nil && n > 0 {
		var wait time.Duration
		if n, wait = g.rate.take(n); n == 0 {
			time.AfterFunc(wait, g.wake)
		}
	}
	return n, run
}

// probeGap is how often one message may be claimed beyond the room, when something
// was appended: it may be more urgent than all that is at hand.
const probeGap = 2 * time.Millisecond

// wakingGate is a gate before a store that tells when something was appended.
type wakingGate struct {
	*gate
	waker store.Waker
}

// newGate returns a gate before s, and the store to be used in its place.
func newGate(s store.Store) (*gate, store.Store) {
	g := &gate{Store: s}
	if w, ok := store.As[store.Waker](s); ok {
		return g, &wakingGate{g, w}
	}
	return g, g
}

// Listen implements [store.Waker], and takes note.
func (w *wakingGate) Listen(ctx context.Context, topics ...string) (<-chan struct{}, error) {
	in, err := w.waker.Listen(ctx, topics...)
	if err != nil {
		return nil, err
	}
	out := make(chan struct{}, 1)
	go func() {
		for {
			select {
			case <-in:
				w.fresh.Store(true)
				select {
				case out <- struct{}{}:
				default:
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// pendingFor is how long a run that was handed out takes until its handler
// begins, at most. What a drain or a suspect holds up must not block the gate.
const pendingFor = 100 * time.Millisecond

func (g *gate) handedOut(ds []pawl.Delivery, allowed int) {
	if g.rate != nil {
		g.rate.giveBack(allowed - len(ds))
	}
	if g.room == nil || len(ds) == 0 {
		return
	}
	runs := 0
	for i := range ds {
		if i == 0 || ds[i].Token.Lane != ds[i-1].Token.Lane || ds[i].Token.Fence != ds[i-1].Token.Fence {
			runs++
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pendedAt = time.Now()
	g.pending += runs
	g.length += (float64(len(ds))/float64(runs) - g.length) / 4
}

// begun is told of every handler that begins.
func (g *gate) begun() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending = max(0, g.pending-1)
}

// share divides what is allowed among the topics: all get the same, and those
// that want less leave it to the others.
func share(wants []store.Want, allowed, run int) []store.Want {
	cut := slices.Clone(wants)
	order := make([]*store.Want, len(cut))
	for i := range cut {
		order[i] = &cut[i]
	}
	slices.SortStableFunc(order, func(a, b *store.Want) int { return cmp.Compare(a.Limit, b.Limit) })
	for i, w := range order {
		left := len(order) - i
		w.Limit = min(w.Limit, (allowed+left-1)/left)
		allowed -= w.Limit
		if run > 0 {
			w.Run = run
		}
	}
	return slices.DeleteFunc(cut, func(w store.Want) bool { return w.Limit == 0 })
}

// bucket holds what a rate allows: it fills up to a tenth of a second's worth.
type bucket struct {
	perSecond float64

	mu   sync.Mutex
	have float64
	at   time.Time
}

func newBucket(perSecond float64) *bucket {
	return &bucket{perSecond: perSecond, have: 1, at: time.Now()}
}

// take takes up to n, and says when there is more if there is none.
func (b *bucket) take(n int) (int, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.have = min(b.have+now.Sub(b.at).Seconds()*b.perSecond, max(1, b.perSecond/10))
	b.at = now
	taken := min(n, int(b.have))
	b.have -= float64(taken)
	if taken > 0 {
		return taken, 0
	}
	return 0, time.Duration((1 - b.have) / b.perSecond * float64(time.Second))
}

// giveBack returns what was taken and not used.
func (b *bucket) giveBack(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.have += float64(n)
}

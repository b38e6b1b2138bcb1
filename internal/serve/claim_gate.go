package serve

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

// claimGate limits the claims of some topics of a store to what there is room for. Messages
// that are not claimed stay where other processes can take them, and their deadlines do
// not run.
type claimGate struct {
	room func() (lanes, run int) // nil: there always is
	wake func()                  // claims are worth a try again

	fresh  atomic.Bool // something was appended since the last claim
	probed time.Time   // when a claim was let through beyond the room

	mu       sync.Mutex
	pending  int // runs handed out whose handler has not begun
	pendedAt time.Time
	length   float64 // of runs, as they came of late
}

// allowed returns how many of so many messages may be claimed now, and in runs of
// how many; 0 leaves that as it is. Room is for lanes; how many messages come of
// one is taken from what came before.
func (g *claimGate) allowed(n int) (allowed, run int) {
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
	return n, run
}

// probeGap is how often one message may be claimed beyond the room, when something
// was appended: it may be more urgent than all that is at hand.
const probeGap = 2 * time.Millisecond

// gated is a store behind gates, each before some of its topics.
type gated struct {
	store.Store
	gates map[string]*claimGate // by topic
	// settled is called with what was settled, or never will be; it may be nil.
	settled func(...pawl.Token)
}

// newGated returns s behind gates, by topic. Topics without one are open. settled, if
// not nil, is called with what was settled.
func newGated(s store.Store, gates map[string]*claimGate, settled func(...pawl.Token)) store.Store {
	g := &gated{s, gates, settled}
	if w, ok := store.As[store.Waker](s); ok {
		return &wakingGated{g, w}
	}
	return g
}

// Unwrap returns the store behind the gates.
func (g *gated) Unwrap() store.Store { return g.Store }

// passage is what one gate lets through of a claim.
type passage struct {
	gate    *claimGate
	wants   []store.Want
	allowed int
	runs    int // that came
	came    int // messages
}

// Claim claims as much of wants as may be.
func (g *gated) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	var passages []*passage
	var cut []store.Want
	for _, w := range wants {
		at := g.gates[w.Topic]
		if at == nil {
			cut = append(cut, w)
			continue
		}
		i := slices.IndexFunc(passages, func(p *passage) bool { return p.gate == at })
		if i < 0 {
			i = len(passages)
			passages = append(passages, &passage{gate: at})
		}
		passages[i].wants = append(passages[i].wants, w)
	}
	for _, p := range passages {
		total, run := 0, 0
		for _, w := range p.wants {
			total += w.Limit
		}
		if p.allowed, run = p.gate.allowed(total); p.allowed > 0 {
			cut = append(cut, share(p.wants, p.allowed, run)...)
		}
	}
	if len(cut) == 0 {
		return nil, nil
	}
	ds, err := g.Store.Claim(ctx, cut, lease)
	g.count(passages, ds)
	return ds, err
}

// Settle settles, and calls settled.
func (g *gated) Settle(ctx context.Context, b store.Batch[store.Settlement]) ([]store.Refusal, error) {
	refused, err := g.Store.Settle(ctx, b)
	if err == nil && g.settled != nil {
		tokens := make([]pawl.Token, len(b.Items))
		for i := range b.Items {
			tokens[i] = b.Items[i].Token
		}
		g.settled(tokens...)
	}
	return refused, err
}

// count lets the gates know what came.
func (g *gated) count(passages []*passage, ds []pawl.Delivery) {
	for i := range ds {
		at := g.gates[ds[i].Topic]
		for _, p := range passages {
			if p.gate != at {
				continue
			}
			p.came++
			if i == 0 || ds[i].Token.Lane != ds[i-1].Token.Lane || ds[i].Token.Fence != ds[i-1].Token.Fence ||
				ds[i].Topic != ds[i-1].Topic {
				p.runs++
			}
		}
	}
	for _, p := range passages {
		if p.allowed > 0 {
			p.gate.handedOut(p.runs, p.came)
		}
	}
}

// wakingGated is gates before a store that tells when something was appended.
type wakingGated struct {
	*gated
	waker store.Waker
}

// Listen implements [store.Waker], and takes note.
func (w *wakingGated) Listen(ctx context.Context, topics ...string) (<-chan struct{}, error) {
	in, err := w.waker.Listen(ctx, topics...)
	if err != nil {
		return nil, err
	}
	out := make(chan struct{}, 1)
	go func() {
		for {
			select {
			case <-in:
				for _, g := range w.gates {
					g.fresh.Store(true)
				}
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

// handedOut takes note of what came.
func (g *claimGate) handedOut(runs, came int) {
	if g.room == nil || came == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pendedAt = time.Now()
	g.pending += runs
	g.length += (float64(came)/float64(runs) - g.length) / 4
}

// begun is called when a handler begins.
func (g *claimGate) begun() {
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

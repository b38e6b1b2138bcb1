package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// live returns the leased lanes, in the order of their leases' last claims.
func (w *walk) live() []*mLane {
	var lanes []*mLane
	for _, d := range w.held {
		if n := w.m.known[d.ID]; n != nil && n.lane != nil && n.lane.lease != nil &&
			n.lane.lease.fence == d.Token.Fence &&
			!slices.Contains(lanes, n.lane) {
			lanes = append(lanes, n.lane)
		}
	}
	return lanes
}

// delivery returns what was handed out of a leased message.
func (w *walk) delivery(n *mMessage) pawl.Delivery {
	for _, d := range slices.Backward(w.held) {
		if d.ID == n.ID && d.Token.Fence == n.lane.lease.fence {
			return d
		}
	}
	w.Fatalf("%s is leased, but was not handed out", n.Body)
	return pawl.Delivery{}
}

// settleStep settles the beginnings of one to three runs in one batch, in any
// order.
func (w *walk) settleStep() {
	lanes := w.live()
	if len(lanes) == 0 {
		return
	}
	var items []planned
	for i, at := range w.rand.Perm(len(lanes))[:min(len(lanes), 1+w.rand.IntN(3))] {
		items = append(items, w.plan(lanes[at], i == 0)...)
	}
	if len(items) == 1 && items[0].Verdict == store.Ack && w.oneIn(2) {
		items[0].Emit = append(items[0].Emit, w.message("e"))
	}
	w.follow(items)
	w.rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	batch := store.Batch[store.Settlement]{ID: pawl.NewID()}
	var want []int
	for i, p := range items {
		batch.Items = append(batch.Items, p.Settlement)
		if p.lost {
			want = append(want, i)
		}
	}
	w.note("settle %s", describeItems(items))
	refused, err := w.Store.Settle(w.ctx(), batch)
	w.must(err)
	w.wantItems(refused, want...)
	at := w.m.now
	w.repeat = func() {
		if w.m.now-at < 50*time.Minute {
			w.note("repeat the settle")
			again, err := w.Store.Settle(w.ctx(), batch)
			w.must(err)
			w.wantItems(again, want...)
		}
	}
}

// planned is a settlement and what must become of it.
type planned struct {
	store.Settlement
	d    pawl.Delivery
	n    *mMessage
	lane *mLane
	lost bool
}

// plan settles some of a run: acks, a last verdict, and at times what follows
// the end of the run. Only one run of a batch emits, so that the order of what
// is emitted is certain.
func (w *walk) plan(l *mLane, emits bool) []planned {
	var items []planned
	run := l.lease.run
	n := 1 + w.rand.IntN(len(run))
	for i, msg := range run[:n] {
		d := w.delivery(msg)
		s := verdict(d, store.Ack)
		if i == n-1 || w.oneIn(10) {
			s.Verdict = pickOne(w, store.Ack, store.Ack, store.Ack, store.Retry, store.Retry, store.Dead, store.Release)
		}
		switch s.Verdict {
		case store.Ack:
			if w.oneIn(8) {
				s.Hold = half(w.rand.IntN(4))
			}
			if emits && w.oneIn(5) {
				e := w.message("")
				e.Unique = pawl.Unique{}
				s.Emit = append(s.Emit, e)
			}
		case store.Retry, store.Release:
			s.After = pickOne(w, 0, half(0), half(2))
			s.Throttled = s.Verdict == store.Retry && w.oneIn(3)
			s.Failure = failure("failed")
		case store.Dead:
			s.Failure = failure("dead")
		}
		if s.Verdict != store.Ack && w.oneIn(8) {
			s.Hold = half(w.rand.IntN(4))
		}
		items = append(items, planned{Settlement: s, d: d, n: msg, lane: l})
	}
	return items
}

// follow lets the model settle, each run in the order of its lane.
func (w *walk) follow(items []planned) {
	for i := range items {
		p := &items[i]
		p.lost = !w.m.settle(p.lane, p.Token.Fence, p.n, p.Settlement)
	}
	w.held = slices.DeleteFunc(w.held, func(d pawl.Delivery) bool {
		n := w.m.known[d.ID]
		ended := n == nil || n.lane == nil || n.lane.lease == nil || n.lane.lease.fence != d.Token.Fence
		if ended && slices.ContainsFunc(items, func(p planned) bool {
			return p.d.Token.Fence == d.Token.Fence &&
				p.d.Token.Lane == d.Token.Lane
		}) {
			w.stale = append(w.stale, d)
		}
		return ended
	})
}

func describeItems(items []planned) string {
	var parts []string
	for _, p := range items {
		s := fmt.Sprintf("%s %v", p.d.Body, p.Verdict)
		if p.Closes() > 0 {
			s += fmt.Sprintf(" %v hold %v", p.After, p.Hold)
		}
		if len(p.Emit) > 0 {
			s += " emits " + describe(p.Emit)
		}
		if p.lost {
			s += " (lost)"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}

// staleStep settles and extends with stale tokens.
func (w *walk) staleStep() {
	if len(w.stale) == 0 {
		return
	}
	d := pickOne(w, w.stale...)
	s := verdict(d, pickOne(w, store.Ack, store.Retry, store.Dead, store.Release))
	if s.Verdict == store.Ack {
		s.Emit = []pawl.Message{w.message("")}
	}
	w.note("settle %s %v with a stale token", d.Body, s.Verdict)
	w.lost(s)
	if lost := w.extendLosing(half(1), d); len(lost) != 1 {
		w.Fatalf("a stale token of %s was extended", d.Body)
	}
}

func (w *walk) extendStep() {
	lanes := w.live()
	if len(lanes) == 0 {
		return
	}
	l := pickOne(w, lanes...)
	d := w.delivery(pickOne(w, l.lease.run...))
	by := half(w.rand.IntN(6))
	w.note("extend %s by %v", d.Body, by)
	w.extend(by, d)
	l.lease.until = max(l.lease.until, min(w.m.now+by, l.lease.hard))
}

package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// known is a message as the reference has it; nil if it is gone.
func (w *walk) known(id string) *store.Record {
	r, err := w.ref.inspector().Get(w.ref.ctx(), id)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	w.must(err)
	return &r
}

// checkStep compares one message, or everything.
func (w *walk) checkStep() {
	if len(w.ids) > 0 {
		w.checkMessage(pickOne(w, w.ids...))
	}
	if w.oneIn(4) {
		w.checkAll()
	}
}

func (w *walk) checkMessage(id string) {
	want := w.known(id)
	if want == nil {
		w.gone(id)
		return
	}
	if w.doomed()(want) {
		return // parked or not yet
	}
	facts := func(r *store.Record) string {
		return fmt.Sprintf("%s, %d attempts, %d rescues, %d of them lonely, %d replays", r.State, r.Attempts, r.Rescues,
			r.Lonely, r.Replays)
	}
	r := w.get(id)
	w.check(facts(&r) == facts(want), "%s is %s; want %s", id, facts(&r), facts(want))
	if r.State == store.Delayed {
		w.near("the time of "+id, r.NotBefore.Sub(want.NotBefore), w.ahead)
	}
}

// doomed reports whether a message is parked, or is parked when its turn comes: when
// that is, is up to the store.
func (w *walk) doomed() func(*store.Record) bool {
	keys := map[string]bool{}
	if w.settings.Park && w.settings.Order == store.OrderKey {
		for _, r := range w.ref.deadLetters(store.DeadFilter{}) {
			keys[string(r.Key)] = r.Key != nil
		}
	}
	return func(r *store.Record) bool {
		return keys[string(r.Key)] && r.Key != nil && r.State != store.Leased && r.State != store.Acked &&
			(r.State != store.IsDead || r.Kind == pawl.KindParked)
	}
}

// checkAll compares lists and figures, unless messages are parked.
func (w *walk) checkAll() {
	doomed, lists := w.doomed(), map[string][]store.Record{}
	for _, s := range []store.State{store.Waiting, store.Delayed, store.Leased} {
		lists[string(s)] = w.ref.list(store.Filter{Topic: w.Topic, State: s})
		if slices.ContainsFunc(lists[string(s)], func(r store.Record) bool { return doomed(&r) }) {
			return
		}
	}
	w.wantStats(w.ref.stats())
	for s, want := range lists {
		w.sameIDs(s, w.list(store.Filter{Topic: w.Topic, State: store.State(s)}), want)
	}
	w.sameIDs("dead", w.deadLetters(store.DeadFilter{Topic: w.Topic}),
		w.ref.deadLetters(store.DeadFilter{Topic: w.Topic}))
}

func (w *walk) sameIDs(what string, got, want []store.Record) {
	sorted := func(rs []store.Record) []string {
		return slices.Sorted(slices.Values(each(rs, func(r store.Record) string { return r.ID })))
	}
	w.check(slices.Equal(sorted(got), sorted(want)), "listed as %s: %q; want %q", what, sorted(got), sorted(want))
}

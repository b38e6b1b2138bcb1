package storetest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// messages returns what the model knows, in the order of bodies, so that a seed
// repeats itself.
func (w *walk) messages() []*mMessage {
	return slices.SortedFunc(maps.Values(w.m.known), func(a, b *mMessage) int {
		return cmp.Or(cmp.Compare(len(a.Body), len(b.Body)), cmp.Compare(string(a.Body), string(b.Body)))
	})
}

func (w *walk) cancelStep() {
	all := w.messages()
	if len(all) == 0 {
		return
	}
	n := pickOne(w, all...)
	state := w.m.state(n)
	w.note("cancel %s, which is %s", n.Body, state)
	refused := w.refusing(w.inspector().Cancel(w.ctx(), n.ID))
	switch state {
	case store.Waiting, store.Delayed:
		refused.want(nil)
		w.m.cancel(n)
	case store.Acked:
		refused.want(store.ErrNotFound, n.ID)
	default:
		refused.want(store.ErrConflict, n.ID)
	}
}

func (w *walk) replayStep() {
	if len(w.m.deaths) == 0 {
		return
	}
	var ids []string
	var want []string
	for _, at := range w.rand.Perm(len(w.m.deaths))[:min(len(w.m.deaths), 1+w.rand.IntN(3))] {
		ids = append(ids, w.m.deaths[at].ID)
	}
	for _, id := range ids {
		w.note("replay %s", w.m.known[id].Body)
		if !w.m.replay(w.m.known[id]) {
			want = append(want, id)
		}
	}
	w.refusing(w.dead().Replay(w.ctx(), "", ids...)).want(store.ErrConflict, want...)
}

func (w *walk) purgeStep() {
	if len(w.m.deaths) == 0 {
		return
	}
	n := pickOne(w, w.m.deaths...)
	w.note("purge %s", n.Body)
	w.noneRefused(w.dead().Purge(w.ctx(), n.ID))
	w.m.takeFromDead(n)
	w.m.totals.Purged++
	delete(w.m.known, n.ID)
}

// checkStep compares one message, or everything.
func (w *walk) checkStep() {
	all := w.messages()
	if len(all) > 0 {
		w.checkMessage(pickOne(w, all...))
	}
	if w.oneIn(4) {
		w.checkAll()
	}
}

func (w *walk) checkMessage(n *mMessage) {
	if w.m.forgotten(n) {
		w.gone(n.ID)
		return
	}
	r := w.get(n.ID)
	if n.lane != nil && n.lane.claimable() && w.m.doomed(n) {
		return // parked or not yet
	}
	if want := w.m.state(n); r.State != want && !(n.lane != nil && n.lane.maybe && r.State == store.Waiting) {
		w.Fatalf("%s is %s; want %s (%s)", n.Body, r.State, want, r.Reason)
	}
	if r.Attempts != n.attempts || r.Rescues != n.rescues || r.Lonely != n.lonely || r.Replays != n.replays {
		w.Fatalf("%s has %d attempts, %d rescues, %d of them lonely, %d replays; want %d, %d, %d, %d",
			n.Body, r.Attempts, r.Rescues, r.Lonely, r.Replays, n.attempts, n.rescues, n.lonely, n.replays)
	}
	if r.State == store.Delayed {
		w.near("the time of "+string(n.Body), r.NotBefore.Sub(w.base), n.lane.closed)
	}
}

// checkAll compares lists and figures. What is doomed may be parked by now or
// not, so that it must not be there.
func (w *walk) checkAll() {
	want := w.m.totals
	states := map[store.State]map[string]bool{}
	for _, s := range []store.State{store.Waiting, store.Delayed, store.Leased, store.IsDead, store.Acked} {
		states[s] = map[string]bool{}
	}
	for _, n := range w.m.known {
		if n.lane != nil && (w.m.doomed(n) || n.lane.maybe) {
			return
		}
		states[w.m.state(n)][n.ID] = true
	}
	want.Waiting, want.Delayed = int64(len(states[store.Waiting])), int64(len(states[store.Delayed]))
	want.Leased, want.Dead = int64(len(states[store.Leased])), int64(len(states[store.IsDead]))
	w.wantStats(want)
	for _, s := range []store.State{store.Waiting, store.Delayed, store.Leased} {
		w.sameIDs(string(s), w.list(store.Filter{Topic: w.Topic, State: s}), states[s])
	}
	w.sameIDs("dead", w.deadLetters(store.DeadFilter{Topic: w.Topic}), states[store.IsDead])
}

func (w *walk) sameIDs(what string, got []store.Record, want map[string]bool) {
	seen := map[string]bool{}
	for _, r := range got {
		if seen[r.ID] || !want[r.ID] {
			w.Fatalf("%s is listed as %s; seen before: %t", r.Body, what, seen[r.ID])
		}
		seen[r.ID] = true
	}
	if len(seen) != len(want) {
		w.Fatalf("%d messages are listed as %s; want %d", len(seen), what, len(want))
	}
}

// drain carries out everything: nothing may be lost, or stay for ever.
func (w *walk) drain() {
	if w.m.paused {
		w.pauseStep()
	}
	for round := 0; len(w.m.lanes) > 0; round++ {
		if round > 400 {
			w.Fatalf("%d lanes do not come to their end: %q first", len(w.m.lanes), w.m.lanes[0].queue[0].Body)
		}
		ds := w.claimAs(store.Want{Topic: w.Topic, Limit: 100, Run: 64},
			store.Lease{For: half(1), Suspects: 32, Alone: true})
		var items []planned
		for _, d := range ds {
			n := w.m.known[d.ID]
			items = append(items, planned{Settlement: verdict(d, store.Ack), d: d, n: n, lane: n.lane})
		}
		w.follow(items)
		w.ack(ds...)
		if len(ds) == 0 {
			w.Advance(6 * time.Minute)
			w.m.advance(6 * time.Minute)
			w.note("advance 6m")
		}
	}
	w.checkAll()
	if st := w.stats(); st.Waiting+st.Delayed+st.Leased != 0 {
		w.Fatalf("after the end: %+v", st)
	}
}

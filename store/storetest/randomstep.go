package storetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// lanePriority is one for each key, so that no message of a lane has a better rank than
// one before it: whether its lane is claimed the sooner for that is up to the store.
var lanePriority = map[string]int{"k": 0, "K": 10, "l": 50, "m": 100}

// message makes a random message; names is the prefix of its unique keys.
func (w *walk) message(names string) pawl.Message {
	w.counter++
	m := pawl.Message{Topic: w.Topic, Body: []byte("m" + strconv.Itoa(w.counter)),
		Priority: pickOne(w, 0, 0, 10, 50, 100)}
	if key := pickOne(w, "", "", "k", "K", "l", "m"); key != "" {
		m.Key, m.Priority = []byte(key), lanePriority[key]
	}
	if w.oneIn(6) {
		m.Delay = half(w.rand.IntN(5))
	}
	if w.oneIn(5) && !w.settings.Park {
		m.Unique = pawl.Unique{
			Key: names + strconv.Itoa(w.rand.IntN(3)), Scope: pickOne(w, "", "s"),
			For: pickOne(w, 0, half(4), pawl.Forever, pawl.UntilClaimed),
		}
	}
	return m
}

func (w *walk) appendStep() {
	var msgs []pawl.Message
	for range 1 + w.rand.IntN(6) {
		m := w.message("u")
		if m.ID = string(m.Body); w.oneIn(8) {
			m.ID = "id" + strconv.Itoa(w.rand.IntN(6))
		}
		if w.oneIn(20) {
			m.Priority = 101
		}
		msgs = append(msgs, m)
		w.ids = append(w.ids, m.ID)
	}
	w.note("append %s", describe(msgs))
	batch := store.NewBatch(msgs...)
	got, want := w.appendBatch(batch), w.ref.appendBatch(batch)
	for i, m := range msgs { // of two that have a message's id and its unique key either may be named
		g, r := got[i], want[i]
		w.check(g.ID == m.ID && (g.Err == nil) == (r.Err == nil) && (g.DuplicateOf == "") == (r.DuplicateOf == ""),
			"append of %s: receipt %+v; want %+v", m.Body, g, r)
	}
	w.repeatable("append", func() { w.sameReceipts(w.appendBatch(batch), got) })
}

// repeatable lets a later step repeat a batch, as long as that is surely remembered.
func (w *walk) repeatable(what string, again func()) {
	at := w.passed
	w.repeat = func() {
		if w.passed-at < 50*time.Minute {
			w.note("repeat the %s", what)
			again()
		}
	}
}

func describe(msgs []pawl.Message) string {
	var parts []string
	for _, m := range msgs {
		s := fmt.Sprintf("%s(%s p%d", m.Body, m.Key, m.Priority)
		if m.Delay > 0 {
			s += fmt.Sprintf(" delay %v", m.Delay)
		}
		if m.Unique.Key != "" {
			s += fmt.Sprintf(" unique %s/%s for %v", m.Unique.Scope, m.Unique.Key, m.Unique.For)
		}
		if m.ID != "" {
			s += " " + m.ID
		}
		parts = append(parts, s+")")
	}
	return strings.Join(parts, " ")
}

func (w *walk) claimStep() {
	terms := store.Lease{For: pickOne(w, half(1), half(5)), Owner: pickOne(w, "", "a", "a", "b", "c"),
		Suspects: pickOne(w, 0, 1, 8, 32, 32), Alone: w.oneIn(2)}
	run := pickOne(w, 1, 2, 3, 64)
	if limit := pickOne(w, 0, 1, 1, 2, 3, 10, 100); limit < 100 && !w.settings.Tail {
		w.claimSome(limit, run, terms)
	} else {
		terms.Suspects = max(terms.Suspects, 8)
		w.claimAll(run, terms)
	}
}

// claimSome claims, and lets the reference claim as many lanes and as long runs: how many
// a claim gives is up to the store. Which ones is not, but that a suspect may be passed
// over that is not the best.
func (w *walk) claimSome(limit, run int, terms store.Lease) {
	best := limit == 1 && !w.settings.Park && // the best one may be parked, or wait to be tried alone
		!slices.ContainsFunc(w.ref.list(store.Filter{Topic: w.Topic, State: store.Waiting}),
			func(r store.Record) bool { return store.Solitary(r.Rescues) })
	if !best {
		terms.Suspects = 0
	}
	runs := w.claimRuns(w.T, limit, run, terms)
	if len(runs) == 0 && limit > 0 {
		if left := w.ref.claimWith(terms, store.Want{Topic: w.Topic, Limit: 1}); len(left) > 0 {
			w.Fatalf("nothing was claimed, but %q is there", left[0].Body)
		}
	}
	for _, ds := range runs {
		w.same(ds, w.ref.claimWith(terms, store.Want{Topic: w.Topic, Limit: len(ds), Run: len(ds)}))
		terms.Alone = false
	}
}

// claimAll claims until there is nothing left, in whatever order it comes. With retries at
// the tail it does so one by one: whether a run goes on with one is up to the store.
func (w *walk) claimAll(run int, terms store.Lease) {
	if w.settings.Tail {
		run = 1
	}
	all := func(t *T) (all [][]pawl.Delivery) {
		for range len(w.ids) + 1 {
			runs := w.claimRuns(t, store.MaxBatch, run, terms)
			if all = append(all, runs...); len(runs) == 0 {
				slices.SortFunc(all, func(a, b []pawl.Delivery) int { return strings.Compare(a[0].ID, b[0].ID) })
				return all
			}
		}
		w.Fatalf("claims do not come to their end")
		return nil
	}
	got, want := all(w.T), all(w.ref)
	for i := range max(len(got), len(want)) {
		w.check(i < len(got) && i < len(want), "claimed %d runs; want %d", len(got), len(want))
		w.same(got[i], want[i])
	}
}

// claimRuns claims, and returns the runs.
func (w *walk) claimRuns(t *T, limit, run int, terms store.Lease) (runs [][]pawl.Delivery) {
	ds := t.claimWith(terms, store.Want{Topic: w.Topic, Limit: limit, Run: run})
	if t == w.T {
		w.note("claim %d, runs of %d, for %v, by %q, suspects %d, alone %t: %q", limit, run, terms.For, terms.Owner,
			terms.Suspects, terms.Alone, bodiesOf(ds))
	}
	w.check(len(ds) <= limit, "%d deliveries; the limit is %d", len(ds), limit)
	for i, d := range ds {
		if i == 0 || d.Token.Lane != ds[i-1].Token.Lane {
			runs = append(runs, nil)
		}
		last := len(runs) - 1
		runs[last] = append(runs[last], d)
		w.check(len(runs[last]) <= run, "a run of more than %d", run)
		w.check(!store.Solitary(d.Rescues) || len(ds) <= 1, "%q is not alone", d.Body)
	}
	return runs
}

// same holds a run, and fails unless it is that of the reference.
func (w *walk) same(got, want []pawl.Delivery) {
	w.check(slices.Equal(bodiesOf(got), bodiesOf(want)), "claimed %q; want %q", bodiesOf(got), bodiesOf(want))
	for i := range got {
		g, r := got[i], want[i]
		facts := func(d pawl.Delivery) string {
			return fmt.Sprintf("%s with key %q and priority %d, attempt %d, %d rescues, %d replays, %d throttles", d.ID,
				d.Key, d.Priority, d.Attempt, d.Rescues, d.Replays, d.Throttles)
		}
		w.check(facts(g) == facts(r), "%q came as %s; want %s", g.Body, facts(g), facts(r))
		w.check(g.Token.Fence == got[0].Token.Fence, "%q has another fence than its run", g.Body)
		w.near("the wait of "+g.ID, g.Waited, r.Waited)
		w.held = append(w.held, pair{g, r})
	}
}

func (w *walk) advanceStep() {
	d := time.Duration(1+w.rand.IntN(5)) * time.Minute
	w.pass(d)
	w.note("advance %v", d)
	w.claimStep() // and the store notices what is due
	w.drop()
}

// drop forgets what is not leased any more, and returns it.
func (w *walk) drop() (ended []pair) {
	var live []pair
	for i, p := range w.held {
		again := slices.ContainsFunc(w.held[i+1:], func(q pair) bool { return q.got.ID == p.got.ID })
		if r := w.known(p.got.ID); !again && r != nil && r.State == store.Leased {
			live = append(live, p)
		} else {
			ended = append(ended, p)
		}
	}
	w.held = live
	return ended
}

// runs returns what is left of the leased runs.
func (w *walk) runs() (runs [][]pair) {
	for _, p := range w.held {
		i := slices.IndexFunc(runs, func(run []pair) bool { return run[0].want.Token.Lane == p.want.Token.Lane })
		if i < 0 {
			runs, i = append(runs, nil), len(runs)
		}
		runs[i] = append(runs[i], p)
	}
	return runs
}

// planned is what is settled of both.
type planned struct {
	pair
	store.Settlement // of the store under test
}

// settleStep settles the beginnings of one to three runs in one batch, in any
// order.
func (w *walk) settleStep() {
	runs := w.runs()
	if len(runs) == 0 {
		return
	}
	var items []planned
	for i, at := range w.rand.Perm(len(runs))[:min(len(runs), 1+w.rand.IntN(3))] {
		items = append(items, w.plan(runs[at], i == 0 && !w.settings.Tail)...)
	}
	if len(items) == 1 && items[0].Verdict == store.Ack && w.oneIn(2) {
		items[0].Emit = append(items[0].Emit, w.message("e"))
	}
	w.rand.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	w.settleBoth(items)
}

// settleBoth settles items in one batch, and refuses what the reference refuses.
func (w *walk) settleBoth(items []planned) {
	if len(items) == 0 {
		return
	}
	w.note("settle %s", describeItems(items))
	got := store.Batch[store.Settlement]{ID: pawl.NewID()}
	want := got
	for _, p := range items {
		got.Items = append(got.Items, p.Settlement)
		p.Settlement.Token = p.pair.want.Token
		want.Items = append(want.Items, p.Settlement)
		for i := range p.Emit {
			w.ids = append(w.ids, pawl.EmitID(p.Settlement.ID, i))
		}
	}
	refused := each(w.ref.settleBatch(want), func(r store.Refusal) int { return r.Index })
	w.wantItems(w.settleBatch(got), refused...)
	w.repeatable("settle", func() { w.wantItems(w.settleBatch(got), refused...) })
	for _, p := range w.drop() {
		if slices.ContainsFunc(items, func(of planned) bool { return of.got.Token.Lane == p.got.Token.Lane }) {
			w.stale = append(w.stale, p)
		}
	}
}

// plan settles some of a run: acks, a last verdict, and at times what follows
// the end of the run. Only one run of a batch emits, and none beside retries at the tail,
// so that the order of what is appended is certain.
func (w *walk) plan(run []pair, emits bool) []planned {
	var items []planned
	n := 1 + w.rand.IntN(len(run))
	for i, p := range run[:n] {
		s := verdict(p.got, store.Ack)
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
		items = append(items, planned{p, s})
	}
	return items
}

func describeItems(items []planned) string {
	var parts []string
	for _, p := range items {
		s := fmt.Sprintf("%s %v", p.got.Body, p.Verdict)
		if p.Closes() > 0 {
			s += fmt.Sprintf(" %v hold %v", p.After, p.Hold)
		}
		if len(p.Emit) > 0 {
			s += " emits " + describe(p.Emit)
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
	d := pickOne(w, w.stale...).got
	s := verdict(d, pickOne(w, store.Ack, store.Retry, store.Dead, store.Release))
	if s.Verdict == store.Ack {
		s.Emit = []pawl.Message{w.message("")}
	}
	w.note("settle %s %v with a stale token", d.Body, s.Verdict)
	w.lost(s)
	lost := w.extendLosing(half(1), d)
	w.check(len(lost) == 1, "a stale token of %s was extended", d.Body)
}

func (w *walk) extendStep() {
	if len(w.held) == 0 {
		return
	}
	p := pickOne(w, w.held...)
	by := half(w.rand.IntN(6))
	w.note("extend %s by %v", p.got.Body, by)
	w.extend(by, p.got)
	w.ref.extend(by, p.want)
}

// refused fails unless a call refuses what it refuses of the reference, for the same
// reasons.
func (w *walk) refused(call func(*T) (map[string]error, error)) {
	got, err := call(w.T)
	w.must(err)
	want, err := call(w.ref)
	w.must(err)
	w.check(slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))), "refused %v; want %v", got,
		want)
	for id, why := range want {
		for _, code := range []error{store.ErrNotFound, store.ErrConflict} {
			if errors.Is(why, code) && !errors.Is(got[id], code) {
				w.Fatalf("%s was refused: %v; want %v", id, got[id], why)
			}
		}
	}
}

func (w *walk) cancelStep() {
	if len(w.ids) == 0 {
		return
	}
	id := pickOne(w, w.ids...)
	r := w.known(id)
	if r == nil || w.doomed()(r) {
		return
	}
	w.note("cancel %s, which is %s", id, r.State)
	w.refused(func(t *T) (map[string]error, error) { return t.inspector().Cancel(t.ctx(), id) })
}

func (w *walk) replayStep() {
	dead := w.ref.deadLetters(store.DeadFilter{})
	if len(dead) == 0 || w.settings.Park {
		return
	}
	var ids []string
	for _, at := range w.rand.Perm(len(dead))[:min(len(dead), 1+w.rand.IntN(3))] {
		ids = append(ids, dead[at].ID)
	}
	w.note("replay %q", ids)
	w.refused(func(t *T) (map[string]error, error) { return t.dead().Replay(t.ctx(), "", ids...) })
}

func (w *walk) purgeStep() {
	dead := w.ref.deadLetters(store.DeadFilter{})
	if len(dead) == 0 || w.settings.Park {
		return
	}
	id := pickOne(w, dead...).ID
	w.note("purge %s", id)
	w.refused(func(t *T) (map[string]error, error) { return t.dead().Purge(t.ctx(), id) })
}

func (w *walk) pauseStep() {
	if w.paused = !w.paused; w.paused {
		w.note("pause")
		w.both(func(t *T) { t.pause(0) })
	} else {
		w.note("resume")
		w.both((*T).resume)
	}
}

func (w *walk) repeatStep() {
	if w.repeat != nil {
		w.repeat()
	}
}

// alterStep changes settings; those that are there keep their rank.
func (w *walk) alterStep() {
	to := w.settings
	if to.Order == store.OrderNone { // see lanePriority
		to.Ageing = pickOne(w, time.Minute, 2*time.Minute, 10*time.Minute)
	}
	to.Deadline = pickOne(w, half(3), half(10))
	w.note("alter to %+v", to)
	w.both(func(t *T) { t.alter(to) })
	to.Version++
	w.settings = to
}

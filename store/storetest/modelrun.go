package storetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// seedVariable names the environment variable that repeats one random test.
const seedVariable = "PAWL_TEST_SEED"

// seeds returns n random seeds, or the one that the environment asks for.
func seeds(t testing.TB, n int) []uint64 {
	t.Helper()
	if v := os.Getenv(seedVariable); v != "" {
		seed, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
		return []uint64{seed}
	}
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = rand.Uint64()
	}
	return seeds
}

// runModel takes random steps on stores of h and checks every answer against
// the model.
func runModel(t *testing.T, h Harness) {
	b := h.describe(t)
	apart := needs(store.CanProcesses, store.CanSurvive, store.CanAttempts, store.CanTxAppend, store.CanWake)
	of := Sentence{Needs: slices.DeleteFunc(slices.Clone(store.AllCapabilities),
		func(c store.Capability) bool { return slices.Contains(apart, c) })}
	if why := of.refusal(b); why != "" {
		t.Logf("%s refuses the model: %s", b.Name, why)
		return
	}
	runs, length := 8, 500
	if testing.Short() {
		runs, length = 2, 200
	}
	for _, seed := range seeds(t, runs) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			steps := randomSteps(seed, length)
			if failed := tryModel(t, h, seed, steps); failed != nil {
				failed = shrink(steps, failed, func(steps []step) *modelFailure { return tryModel(t, h, seed, steps) })
				t.Fatalf("%s=%d: %s\nafter:\n\t%s", seedVariable, seed, failed.why, strings.Join(failed.trace, "\n\t"))
			}
		})
	}
}

// step is a random step as data. Its numbers are read relative to what is there,
// so that every selection of steps is a run, too.
type step struct {
	kind int
	n    [8]uint32
}

func randomSteps(seed uint64, length int) []step {
	r := rand.New(rand.NewPCG(seed, 1))
	var weighted []int
	for kind, k := range stepKinds {
		for range k.weight {
			weighted = append(weighted, kind)
		}
	}
	steps := make([]step, length)
	for i := range steps {
		steps[i].kind = weighted[r.IntN(len(weighted))]
		for j := range steps[i].n {
			steps[i].n[j] = r.Uint32()
		}
	}
	return steps
}

// modelFailure is what went wrong and how it came to it.
type modelFailure struct {
	why   string
	trace []string
}

// tryModel runs steps on a fresh store.
func tryModel(t testing.TB, h Harness, seed uint64, steps []step) *modelFailure {
	r := &recorder{TB: t}
	var w *walk
	r.run(func() {
		w = newWalk(newT(r, h.Open(r)), seed)
		for _, s := range steps {
			w.take(s)
		}
		w.drain()
	})
	if !r.failed {
		return nil
	}
	f := &modelFailure{why: r.why}
	if w != nil {
		f.trace = w.trace
	}
	return f
}

// walk is a store and its model on their way.
type walk struct {
	*T
	m       *model
	base    time.Time  // the store's time at the model's 0
	rand    *rand.Rand // of the current step
	held    []pawl.Delivery
	stale   []pawl.Delivery // whose tokens are stale for certain
	repeat  func()          // repeats the last batch
	trace   []string
	counter int
}

// newWalk declares a topic with random settings.
func newWalk(t *T, seed uint64) *walk {
	r := rand.New(rand.NewPCG(seed, 2))
	pick := func(ds ...time.Duration) time.Duration { return ds[r.IntN(len(ds))] }
	order := store.OrderKey
	if r.IntN(4) == 0 {
		order = store.OrderNone
	}
	settings := store.Topic{
		Name: t.Topic, Order: order, Deadline: pick(half(3), half(10)),
		Ageing: pick(time.Minute, 2*time.Minute, 10*time.Minute),
		Park:   r.IntN(3) == 0, Retain: pick(0, 0, half(5)), Version: 1,
	}
	settings.Tail = !settings.Park && r.IntN(2) == 0
	t.declare(stating(settings))
	w := &walk{T: t, m: newModel(settings), base: t.storeNow()}
	w.note("settings %+v", settings)
	return w
}

// half is n minutes and a half: see [model].
func half(n int) time.Duration { return time.Duration(n)*time.Minute + 30*time.Second }

func (w *walk) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%v ", w.m.now)+fmt.Sprintf(format, args...))
}

// stepKinds are what can be done, by weight.
var stepKinds = []struct {
	weight int
	do     func(*walk)
}{
	{20, (*walk).appendStep},
	{24, (*walk).claimStep},
	{24, (*walk).settleStep},
	{2, (*walk).staleStep},
	{4, (*walk).extendStep},
	{8, (*walk).advanceStep},
	{4, (*walk).cancelStep},
	{4, (*walk).replayStep},
	{1, (*walk).purgeStep},
	{2, (*walk).pauseStep},
	{2, (*walk).repeatStep},
	{1, (*walk).alterStep},
	{4, (*walk).checkStep},
}

func (w *walk) take(s step) {
	w.rand = rand.New(rand.NewPCG(uint64(s.n[0])<<32|uint64(s.n[1]), uint64(s.n[2])<<32|uint64(s.n[3])))
	stepKinds[s.kind].do(w)
}

func (w *walk) oneIn(n int) bool { return w.rand.IntN(n) == 0 }

func pickOne[E any](w *walk, of ...E) E { return of[w.rand.IntN(len(of))] }

// message makes a random message; names is the prefix of its unique keys.
func (w *walk) message(names string) pawl.Message {
	w.counter++
	m := pawl.Message{Topic: w.Topic, Body: []byte("m" + strconv.Itoa(w.counter)),
		Priority: pickOne(w, 0, 0, 10, 50, 100)}
	if key := pickOne(w, "", "", "k", "K", "l", "m"); key != "" {
		m.Key = []byte(key)
	}
	if w.oneIn(6) {
		m.Delay = half(w.rand.IntN(5))
	}
	if w.oneIn(5) {
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
		if w.oneIn(8) {
			m.ID = "id" + strconv.Itoa(w.rand.IntN(6))
		}
		if w.oneIn(20) {
			m.Priority = 101
		}
		msgs = append(msgs, m)
	}
	batch := store.NewBatch(msgs...)
	receipts, err := w.Store.Append(w.ctx(), batch)
	w.must(err)
	w.note("append %s", describe(msgs))
	for i, r := range receipts {
		m := msgs[i]
		if m.ID != "" && r.ID != m.ID || r.ID == "" || (r.Err != nil) != (m.Priority > pawl.MaxPriority) {
			w.Fatalf("append of %s: receipt %+v", m.Body, r)
		}
		if r.Err != nil {
			continue
		}
		m.ID = r.ID
		byID, byKey := w.m.append(m)
		if r.DuplicateOf != byID && r.DuplicateOf != byKey || r.DuplicateOf == "" && byID+byKey != "" {
			w.Fatalf("append of %s: duplicate of %q; want %q or %q", m.Body, r.DuplicateOf, byID, byKey)
		}
	}
	at := w.m.now
	w.repeat = func() {
		if w.m.now-at < 50*time.Minute {
			w.note("repeat the append")
			again, err := w.Store.Append(w.ctx(), batch)
			w.must(err)
			w.sameReceipts(again, receipts)
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
	limit := pickOne(w, 0, 1, 1, 2, 3, 10, 100)
	w.claimAs(store.Want{Topic: w.Topic, Limit: limit, Run: pickOne(w, 1, 2, 3, 64)},
		store.Lease{For: pickOne(w, half(1), half(5)), Owner: pickOne(w, "", "a", "a", "b", "c"),
			Suspects: pickOne(w, 0, 1, 8, 32, 32), Alone: w.oneIn(2)})
}

func (w *walk) claimAs(want store.Want, terms store.Lease) []pawl.Delivery {
	ds := w.claimWith(terms, want)
	w.note("claim %d, runs of %d, for %v, by %q, suspects %d, alone %t: %q",
		want.Limit, want.Run, terms.For, terms.Owner, terms.Suspects, terms.Alone, bodiesOf(ds))
	if err := w.m.claim(ds, want, terms); err != nil {
		w.Fatalf("claim: %v", err)
	}
	w.adoptParked()
	w.held = append(w.held, ds...)
	return ds
}

// adoptParked follows what the store has parked; when exactly a turn comes is its
// affair.
func (w *walk) adoptParked() {
	if !w.m.settings.Park {
		return
	}
	for _, n := range w.m.known {
		if n.lane != nil && n.lane.claimable() && w.m.doomed(n) {
			if r := w.get(n.ID); r.State == store.IsDead && r.Kind == pawl.KindParked {
				w.note("%s is parked", n.Body)
				w.m.kill(n)
			}
		}
	}
	for _, l := range append([]*mLane(nil), w.m.lanes...) {
		w.m.tidy(l)
	}
}

func (w *walk) advanceStep() {
	d := time.Duration(1+w.rand.IntN(5)) * time.Minute
	w.Advance(d)
	w.m.advance(d)
	w.note("advance %v", d)
	w.claimStep() // and the store notices what is due
}

func (w *walk) pauseStep() {
	if w.m.paused {
		w.note("resume")
		w.resume()
	} else {
		w.note("pause")
		w.pause(0)
	}
	w.m.paused = !w.m.paused
}

func (w *walk) repeatStep() {
	if w.repeat != nil {
		w.repeat()
	}
}

// alterStep changes settings; those that are there keep their rank.
func (w *walk) alterStep() {
	to := w.m.settings
	to.Ageing = pickOne(w, time.Minute, 2*time.Minute, 10*time.Minute)
	to.Deadline = pickOne(w, half(3), half(10))
	_, err := w.topics().Alter(w.ctx(), to)
	w.must(err)
	w.note("alter to %+v", to)
	to.Version++
	w.m.settings = to
}

package storetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
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

// runRandom takes random steps on stores of h, and the same steps on a store of package
// memory, and compares every answer.
func runRandom(t *testing.T, h Harness) {
	b := h.describe(t)
	apart := needs(store.CanProcesses, store.CanSurvive, store.CanAttempts, store.CanTxAppend, store.CanWake,
		store.CanAnyProcess)
	of := Sentence{Needs: slices.DeleteFunc(slices.Clone(store.AllCapabilities),
		func(c store.Capability) bool { return slices.Contains(apart, c) })}
	if why := of.refusal(b); why != "" {
		t.Logf("%s refuses random steps: %s", b.Name, why)
		return
	}
	runs, length := 8, 250
	if testing.Short() {
		runs, length = 2, 200
	}
	for _, seed := range seeds(t, runs) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			steps := randomSteps(seed, length)
			if failed := tryRandom(t, h, seed, steps); failed != nil {
				failed = shrink(steps, failed, func(steps []step) *randomFailure { return tryRandom(t, h, seed, steps) })
				t.Fatalf("%s=%d: %s\nafter:\n\t%s", seedVariable, seed, failed.why, strings.Join(failed.trace, "\n\t"))
			}
		})
	}
}

// step is a random step as data. Its numbers are read relative to what is there,
// so that every selection of steps is a run, too.
type step struct {
	kind int
	n    [4]uint32
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

// randomFailure is what went wrong and how it came to it.
type randomFailure struct {
	why   string
	trace []string
}

// tryRandom runs steps on a fresh store.
func tryRandom(t testing.TB, h Harness, seed uint64, steps []step) *randomFailure {
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
	f := &randomFailure{why: r.why}
	if w != nil {
		f.trace = w.trace
	}
	return f
}

// walk does the same on the store under test and on the reference.
//
// Steps move the reference's time by a millisecond, so that no two of them give one
// rank, or by whole minutes, while every lease, delay and hold ends half a minute past
// one. So nothing is due within the seconds that a store's own clock may have moved on
// meanwhile, and both put messages into the same order. Each minute the reference moves
// on as far as that clock did.
//
// What the contract leaves open is not tried: when a message is parked, beside what
// frees it or its unique key.
type walk struct {
	*T
	ref      *T
	passed   time.Duration    // by the steps
	now      func() time.Time // by the reference's clock
	ahead    time.Duration    // of the store's clock
	settings store.Topic
	paused   bool
	rand     *rand.Rand // of the current step
	ids      []string   // of all messages
	held     []pair
	stale    []pair // whose tokens are stale for certain
	repeat   func() // repeats the last batch
	trace    []string
	counter  int
}

// pair is a delivery of the store under test, and the same one of the reference.
type pair struct{ got, want pawl.Delivery }

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
	begin := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	var passed atomic.Int64
	w := &walk{T: t, settings: settings, now: func() time.Time { return begin.Add(time.Duration(passed.Load())) }}
	reference := memory.New(memory.Config{Now: w.now})
	t.Cleanup(func() { _ = reference.Close() })
	w.ref = newT(t, &Instance{Store: reference, Advance: func(d time.Duration) { passed.Add(int64(d)) }})
	w.both(func(t *T) { t.declare(stating(settings)) })
	w.ahead = t.storeNow().Sub(begin)
	w.note("settings %+v", settings)
	return w
}

// half is n minutes and a half: see [walk].
func half(n int) time.Duration { return time.Duration(n)*time.Minute + 30*time.Second }

// both does the same on the store under test and on the reference.
func (w *walk) both(do func(*T)) {
	do(w.T)
	do(w.ref)
}

// pass lets time pass.
func (w *walk) pass(d time.Duration) {
	w.both(func(t *T) { t.Advance(d) })
	if w.passed += d; d >= time.Minute {
		w.ref.Advance(max(w.storeNow().Sub(w.now())-w.ahead, 0))
	}
}

func (w *walk) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%v ", w.passed)+fmt.Sprintf(format, args...))
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
	w.pass(time.Millisecond)
	stepKinds[s.kind].do(w)
}

func (w *walk) oneIn(n int) bool { return w.rand.IntN(n) == 0 }

func pickOne[E any](w *walk, of ...E) E { return of[w.rand.IntN(len(of))] }

// drain carries out everything: nothing may be lost, or stay for ever.
func (w *walk) drain() {
	if w.paused {
		w.pauseStep()
	}
	for round := 0; ; round++ {
		if st := w.ref.stats(); st.Waiting+st.Delayed+st.Leased == 0 {
			break
		}
		if round > 400 {
			w.Fatalf("messages do not come to their end: %+v", w.stats())
		}
		w.claimAll(64, store.Lease{For: half(1), Suspects: 32, Alone: true})
		if len(w.held) == 0 {
			w.pass(6 * time.Minute)
			w.note("advance 6m")
		}
		w.settleBoth(each(w.held, func(p pair) planned { return planned{p, verdict(p.got, store.Ack)} }))
	}
	w.checkAll()
	st := w.stats()
	w.check(st.Waiting+st.Delayed+st.Leased == 0, "after the end: %+v", st)
}

// shrink leaves out steps for as long as something still fails, and for at most
// half a minute.
func shrink(steps []step, failed *randomFailure, try func([]step) *randomFailure) *randomFailure {
	end := time.Now().Add(30 * time.Second)
	for size := len(steps) / 2; size > 0; {
		smaller := false
		for at := 0; at < len(steps) && time.Now().Before(end); {
			fewer := slices.Concat(steps[:at], steps[min(at+size, len(steps)):])
			if f := try(fewer); f != nil {
				steps, failed, smaller = fewer, f, true
			} else {
				at += size
			}
		}
		if !smaller || size > 1 {
			size /= 2
		}
	}
	return failed
}

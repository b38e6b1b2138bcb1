package storetest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// races are the tests of what several do at once, on two handles where the backend has them.
func races() []Sentence {
	return []Sentence{
		{Name: "claimers", Test: claimers},
		{Name: "histories", Test: histories},
		{Name: "one unique key", Needs: needs(store.CanUnique), Test: oneUniqueKey},
		{Name: "one batch", Needs: needs(store.CanRepeatBatch), Test: oneBatch},
		{Name: "one token", Test: oneToken},
		{Name: "one new topic", Needs: needs(store.CanTopics), Test: oneNewTopic},
		{Name: "one pool of unique keys", Needs: needs(store.CanUnique, store.CanEmitAtomic), Test: onePool},
		{Name: "one counter", Needs: needs(store.CanState), Test: oneCounter},
		{Name: "one marker of a key", Needs: needs(store.CanMarks), Test: oneMarker},
		{Name: "permits of a key", Needs: needs(store.CanPace), Test: permitsAreGivenOnce},
		{Name: "one reader of results", Needs: needs(store.CanResults, store.CanTopics), Test: oneReader},
		{Name: "the head of a listing", Needs: needs(store.CanLookup), Test: headOfAListing},
		{Name: "the same dead letters", Needs: needs(store.CanDeadLetters), Test: sameDeadLetters},
	}
}

// handles are the store and, where the backend has it, one peer.
func (t *T) handles() []store.Store {
	if t.pair == nil {
		t.pair = []store.Store{t.Store}
		if t.Peer != nil && t.has(store.CanAnyProcess) {
			t.pair = append(t.pair, t.Peer(t))
		}
	}
	return t.pair
}

// at is the test, at another handle of its data.
func (t *T) at(s store.Store) *T {
	in, other := *t.Instance, *t
	in.Store, other.Instance = s, &in
	return &other
}

// together runs do n times at once, on handles in turns, and returns when all have returned. What fails one of them
// fails the test.
func (t *T) together(n int, do func(i int, t *T)) {
	handles, all := t.handles(), make([]*recorder, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		one := t.at(handles[i%len(handles)])
		all[i] = &recorder{TB: t.TB}
		one.TB = all[i]
		wg.Go(func() {
			<-start
			all[i].run(func() { do(i, one) })
		})
	}
	close(start)
	wg.Wait()
	for i, r := range all {
		if r.failed {
			t.Errorf("%d of %d at once: %s", i, n, r.why)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// oneUniqueKey: of many who append one unique key, one wins, and is named to the
// others.
func oneUniqueKey(t *T) {
	for round := range 5 {
		var mu sync.Mutex
		winners, named := map[string]bool{}, map[string]bool{}
		t.together(8, func(i int, t *T) {
			m := t.unique(fmt.Sprint(i), "u"+strconv.Itoa(round), pawl.Unique{})
			r := t.append(t.msg("other"), m, t.msg("other"))[1]
			mu.Lock()
			defer mu.Unlock()
			if r.DuplicateOf == "" {
				winners[r.ID] = true
			} else {
				named[r.DuplicateOf] = true
			}
		})
		t.check(len(winners) == 1 && maps.Equal(winners, named), "the winners are %v, the others were told %v", winners,
			named)
	}
	t.claimsMany(1000, 5*(2*8+1))
}

// oneBatch: a batch that is sent several times at once takes effect once, and
// every sender gets the same answer.
func oneBatch(t *T) {
	for range 5 {
		batch := store.NewBatch(t.msg("a"), t.keyed("k", "b"), t.unique("c", "u", pawl.Unique{For: pawl.Forever}))
		answers := make([][]store.Receipt, 6)
		t.together(len(answers), func(i int, t *T) { answers[i] = t.appendBatch(batch) })
		for _, a := range answers[1:] {
			t.sameReceipts(a, answers[0])
		}
	}
	t.claimsMany(100, 11)
}

// oneToken: of many who settle with one token, one succeeds.
func oneToken(t *T) {
	for round := range 10 {
		t.put(t.keyed("k", "a"), t.msg("b"))
		for _, d := range t.claim(10) {
			var settled atomic.Int64
			t.together(6, func(i int, t *T) {
				v := []store.Verdict{store.Ack, store.Dead}[i%2]
				settled.Add(1 - int64(len(t.settle(verdict(d, v)))))
			})
			t.check(settled.Load() == 1, "round %d: %d of 6 settled with one token", round, settled.Load())
		}
	}
	t.nothing()
}

// oneNewTopic: several create a topic at once, by appends and by declarations
// that agree.
func oneNewTopic(t *T) {
	for _, topic := range numbered("t", 5) {
		t.Topic = topic
		t.together(8, func(i int, t *T) {
			if i >= 6 && implements[store.Topics](t) {
				t.declare(store.Declaration{Deadline: time.Minute})
			} else {
				t.put(t.msg(""))
			}
		})
		st := t.stats()
		t.check(st.Appended == 6 && st.Version == 1 && st.Deadline == time.Minute, "topic %+v", st)
	}
}

// onePool: batches with many of a few unique keys, in any order, by appends and
// by emits, do not stop one another for good, and each key is taken once.
func onePool(t *T) {
	const workers, rounds, pool = 6, 8, 12
	t.put(slices.Repeat([]pawl.Message{t.msg("parent")}, workers*rounds)...)
	parents := t.claim(workers * rounds)
	t.together(workers, func(i int, t *T) {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		for round := range rounds {
			msgs := each(r.Perm(pool), func(k int) pawl.Message {
				return pawl.Message{Topic: "pool",
					Unique: pawl.Unique{Key: strconv.Itoa(k), Scope: strconv.Itoa(round), For: pawl.Forever}}
			})
			if i%2 == 0 {
				t.append(msgs...)
			} else {
				t.emit(parents[i*rounds+round], msgs...)
			}
		}
	})
	t.Topic = "pool"
	t.claimsMany(store.MaxBatch, pool*rounds)
}

// claimers lets some append and others work, and watches that no message and no
// lane is held twice, that lanes start in order, and that nothing is lost.
func claimers(t *T) {
	appenders, workers, each := 4, 6, 400
	if testing.Short() {
		each = 100
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*t.timeout)
	defer cancel()
	w := &watch{
		ctx: ctx, total: appenders * each, next: map[string]int{}, heldBy: map[string]int64{}, acked: map[string]bool{},
	}
	seed := seeds(t, 1)[0]
	t.Logf("%s=%d", seedVariable, seed)
	t.together(appenders+workers, func(i int, t *T) {
		defer func() {
			if t.Failed() {
				cancel() // nobody waits for what will not come
			}
		}()
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		if i < appenders {
			produce(t, r, i, each)
		} else {
			w.work(t, r)
		}
	})
	t.nothing()
	t.Topic = "children"
	t.claimsMany(store.MaxBatch, w.emitted)
}

// watch is what claimers know together.
type watch struct {
	ctx   context.Context
	total int

	mu      sync.Mutex
	next    map[string]int   // by key: which is to start next
	heldBy  map[string]int64 // by key or id: the fence of who holds it
	acked   map[string]bool  // by id
	emitted int
}

// produce appends to two lanes of its own, in order, and without a key.
func produce(t *T, r *rand.Rand, who, each int) {
	counts := map[string]int{}
	for sent := 0; sent < each; {
		var msgs []pawl.Message
		for range min(each-sent, 1+r.IntN(8)) {
			m := t.msg("")
			if lane := r.IntN(3); lane > 0 {
				key := fmt.Sprintf("%d/%d", who, lane)
				m = t.keyed(key, strconv.Itoa(counts[key]))
				m.Priority = r.IntN(3)
				counts[key]++
			}
			msgs = append(msgs, m)
		}
		sent += len(t.append(msgs...))
	}
}

func (w *watch) work(t *T, r *rand.Rand) {
	for w.ctx.Err() == nil {
		ds := t.claimRun(1+r.IntN(20), 1+r.IntN(5))
		w.hold(t, ds)
		if w.left() == 0 {
			return
		}
		if len(ds) == 0 {
			time.Sleep(time.Millisecond) // an idle poll
			continue
		}
		t.settled(w.decide(t, ds, r)...)
	}
	t.Fatalf("%d of %d messages are not done: %v", w.left(), w.total, w.ctx.Err())
}

// left is how many messages are to be acked yet.
func (w *watch) left() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total - len(w.acked)
}

// hold notes who holds what.
func (w *watch) hold(t *T, ds []pawl.Delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	starts := maps.Clone(w.next)
	for _, d := range ds {
		name := laneOf(&d)
		if d.Key != nil {
			t.check(string(d.Body) == strconv.Itoa(starts[name]), "lane %s starts %s; want %d", name, d.Body,
				starts[name])
			starts[name]++
		}
		fence, held := w.heldBy[name]
		t.check((!held || fence == d.Token.Fence) && !w.acked[d.ID], "%s was handed out, but held or acked", name)
		w.heldBy[name] = d.Token.Fence
	}
}

// decide settles every run: acks, and at times another end. It notes what is to
// be before the call, for another may claim before the call returns.
func (w *watch) decide(t *T, ds []pawl.Delivery, r *rand.Rand) []store.Settlement {
	w.mu.Lock()
	defer w.mu.Unlock()
	var items []store.Settlement
	ended := map[int64]bool{}
	for _, d := range ds {
		if ended[d.Token.Lane] {
			continue
		}
		name := laneOf(&d)
		delete(w.heldBy, name)
		s := verdict(d, store.Ack)
		if r.IntN(10) == 0 {
			s.Verdict = []store.Verdict{store.Retry, store.Release}[r.IntN(2)]
			ended[d.Token.Lane] = true
		} else {
			w.acked[d.ID] = true
			if d.Key != nil {
				w.next[name]++
			}
			if r.IntN(10) == 0 && t.has(store.CanEmitAtomic) {
				s.Emit = []pawl.Message{{Topic: "children"}}
				w.emitted++
			}
		}
		items = append(items, s)
	}
	return items
}

// headOfAListing: one asks for the first message, again and again, while others
// carry out the first ones. It always gets one: enough of them stay.
func headOfAListing(t *T) {
	const n, stay, callers, few = 1200, 200, 4, 5
	for i := range n / 100 {
		t.put(each(numbered(fmt.Sprint(i, "-"), 100), t.msg)...)
	}
	var left, busy atomic.Int64
	left.Store(n - stay)
	busy.Store(callers - 1)
	t.together(callers, func(i int, t *T) {
		if i > 0 {
			defer busy.Add(-1)
			for left.Add(-few) >= 0 {
				t.ack(t.claimWith(allSuspects(), store.Want{Topic: t.Topic, Limit: few})...)
			}
			return
		}
		for busy.Load() > 0 {
			found := len(t.list(store.Filter{Topic: t.Topic, State: store.Waiting, Limit: 1}))
			t.check(found == 1, "listed %d messages of at least %d; the limit is 1", found, stay)
		}
	})
}

// sameDeadLetters: many import, edit, replay and purge the same dead letters at
// once, each in an order of its own; every call succeeds, and each letter is
// imported, and goes, once.
func sameDeadLetters(t *T) {
	const n, callers = 60, 6
	for round := range 3 {
		letters := each(numbered(strconv.Itoa(round)+"-", n), func(id string) store.Record {
			return letter(t.msg("x"), id)
		})
		did := map[string]map[string]int{"import": {}, "edit": {}, "replay or purge": {}}
		var mu sync.Mutex
		all := func(what string, call func(t *T, i int, mixed []store.Record) (map[string]error, error)) {
			t.together(callers, func(i int, t *T) {
				mixed := slices.Clone(letters)
				rand.Shuffle(n, func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
				refused, err := call(t, i, mixed)
				t.must(err)
				mu.Lock()
				defer mu.Unlock()
				for _, r := range letters {
					if refused[r.ID] == nil {
						did[what][r.ID]++
					}
				}
			})
		}
		all("import", func(t *T, _ int, mixed []store.Record) (map[string]error, error) {
			return t.dead().Import(t.ctx(), mixed...)
		})
		for range 5 {
			all("edit", func(t *T, i int, mixed []store.Record) (map[string]error, error) {
				body := strconv.Itoa(i)
				return t.dead().Edit(t.ctx(), each(mixed, func(r store.Record) store.Edit {
					return store.Edit{ID: r.ID, Body: []byte(body), Headers: map[string]string{"by": body}}
				})...)
			})
		}
		all("replay or purge", func(t *T, i int, mixed []store.Record) (map[string]error, error) {
			if i%3 == 0 {
				return t.dead().Purge(t.ctx(), idsOf(mixed)...)
			}
			return t.dead().Replay(t.ctx(), "", idsOf(mixed)...)
		})
		for what, want := range map[string]int{"import": 1, "edit": 5 * callers, "replay or purge": 1} {
			got := slices.Sorted(maps.Values(did[what]))
			t.check(len(got) == n && got[0] == want && got[n-1] == want,
				"round %d: %s succeeded so often, by letter: %v; want %d", round, what, got, want)
		}
	}
}

func idsOf(rs []store.Record) []string {
	return each(rs, func(r store.Record) string { return r.ID })
}

package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// races are the tests of what several do at once, on two handles where the backend has them.
func races() []Sentence {
	return []Sentence{
		{Name: "claimers", Test: func(t *T) { claimers(t, t.handles()) }},
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
	t.Helper()
	if t.pair == nil {
		t.pair = []store.Store{t.Store}
		if t.Peer != nil && t.has(store.CanAnyProcess) {
			t.pair = append(t.pair, t.Peer(t))
		}
	}
	return t.pair
}

// together runs do n times at once, on handles in turns, and returns when all
// have returned. The first error fails the test.
func (t *T) together(n int, do func(i int, s store.Store) error) {
	t.Helper()
	t.togetherOn(t.handles(), n, do)
}

func (t *T) togetherOn(handles []store.Store, n int, do func(i int, s store.Store) error) {
	t.Helper()
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = do(i, handles[i%len(handles)])
		})
	}
	close(start)
	wg.Wait()
	t.must(errors.Join(errs...))
}

// oneUniqueKey: of many who append one unique key, one wins, and is named to the
// others.
func oneUniqueKey(t *T) {
	for round := range 5 {
		var mu sync.Mutex
		winners, named := map[string]bool{}, map[string]bool{}
		t.together(8, func(i int, s store.Store) error {
			m := t.unique(fmt.Sprint(i), "u"+strconv.Itoa(round), pawl.Unique{})
			rs, err := s.Append(t.ctx(), store.NewBatch(t.msg("other"), m, t.msg("other")))
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if r := rs[1]; r.DuplicateOf == "" {
				winners[r.ID] = true
			} else {
				named[r.DuplicateOf] = true
			}
			return nil
		})
		if len(winners) != 1 || !maps.Equal(winners, named) {
			t.Fatalf("the winners are %v, the others were told %v", winners, named)
		}
	}
	t.claimsMany(1000, 5*(2*8+1))
}

// oneBatch: a batch that is sent several times at once takes effect once, and
// every sender gets the same answer.
func oneBatch(t *T) {
	for range 5 {
		batch := store.NewBatch(t.msg("a"), t.keyed("k", "b"), t.unique("c", "u", pawl.Unique{For: pawl.Forever}))
		answers := make([][]store.Receipt, 6)
		t.together(len(answers), func(i int, s store.Store) (err error) {
			answers[i], err = s.Append(t.ctx(), batch)
			return err
		})
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
			var mu sync.Mutex
			settled := 0
			t.together(6, func(i int, s store.Store) error {
				v := []store.Verdict{store.Ack, store.Dead}[i%2]
				refused, err := s.Settle(t.ctx(), store.NewBatch(verdict(d, v)))
				mu.Lock()
				defer mu.Unlock()
				settled += 1 - len(refused)
				return err
			})
			if settled != 1 {
				t.Fatalf("round %d: %d of 6 settled with one token", round, settled)
			}
		}
	}
	t.nothing()
}

// oneNewTopic: several create a topic at once, by appends and by declarations
// that agree.
func oneNewTopic(t *T) {
	for _, topic := range numbered("t", 5) {
		t.together(8, func(i int, s store.Store) error {
			if topics, ok := store.As[store.Topics](s); ok && i >= 6 {
				_, err := topics.Declare(t.ctx(), store.Declaration{Name: topic, Deadline: time.Minute})
				return err
			}
			_, err := s.Append(t.ctx(), store.NewBatch(pawl.Message{Topic: topic}))
			return err
		})
		t.Topic = topic
		if st := t.stats(); st.Appended != 6 || st.Version != 1 || st.Deadline != time.Minute {
			t.Fatalf("topic %+v", st)
		}
	}
}

// onePool: batches with many of a few unique keys, in any order, by appends and
// by emits, do not stop one another for good, and each key is taken once.
func onePool(t *T) {
	const workers, rounds, pool = 6, 8, 12
	t.put(slices.Repeat([]pawl.Message{t.msg("parent")}, workers*rounds)...)
	parents := t.claim(workers * rounds)
	t.together(workers, func(i int, s store.Store) error {
		r := rand.New(rand.NewPCG(uint64(i), 7))
		for round := range rounds {
			var msgs []pawl.Message
			for _, k := range r.Perm(pool) {
				msgs = append(msgs, pawl.Message{Topic: "pool",
					Unique: pawl.Unique{Key: strconv.Itoa(k), Scope: strconv.Itoa(round), For: pawl.Forever}})
			}
			if i%2 == 0 {
				if _, err := s.Append(t.ctx(), store.NewBatch(msgs...)); err != nil {
					return err
				}
				continue
			}
			refused, err := s.Settle(t.ctx(), store.NewBatch(emitting(parents[i*rounds+round], msgs...)))
			if err != nil || len(refused) > 0 {
				return fmt.Errorf("settle refused %v: %w", refused, err)
			}
		}
		return nil
	})
	t.Topic = "pool"
	t.claimsMany(store.MaxBatch, pool*rounds)
}

// claimers lets some append and others work, and watches that no message and no
// lane is held twice, that lanes start in order, and that nothing is lost.
func claimers(t *T, handles []store.Store) {
	appenders, workers, each := 4, 6, 400
	if testing.Short() {
		each = 100
	}
	ctx, cancel := context.WithTimeout(context.Background(), 8*t.timeout)
	defer cancel()
	w := &watch{
		T: t, ctx: ctx, total: appenders * each,
		next: map[string]int{}, heldBy: map[string]int64{}, acked: map[string]bool{},
	}
	seed := seeds(t, 1)[0]
	t.Logf("%s=%d", seedVariable, seed)
	t.togetherOn(handles, appenders+workers, func(i int, s store.Store) error {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		do := w.work
		if i < appenders {
			do = func(s store.Store, r *rand.Rand) error { return w.produce(s, r, i, each) }
		}
		err := do(s, r)
		if err != nil {
			cancel() // nobody waits for what will not come
		}
		return err
	})
	t.nothing()
	t.Topic = "children"
	t.claimsMany(store.MaxBatch, w.emitted)
}

// watch is what claimers know together.
type watch struct {
	*T
	ctx   context.Context
	total int

	mu      sync.Mutex
	next    map[string]int   // by key: which is to start next
	heldBy  map[string]int64 // by key or id: the fence of who holds it
	acked   map[string]bool  // by id
	emitted int
}

// produce appends to two lanes of its own, in order, and without a key.
func (w *watch) produce(s store.Store, r *rand.Rand, who, each int) error {
	counts := map[string]int{}
	for sent := 0; sent < each; {
		var msgs []pawl.Message
		for range min(each-sent, 1+r.IntN(8)) {
			m := w.msg("")
			if lane := r.IntN(3); lane > 0 {
				key := fmt.Sprintf("%d/%d", who, lane)
				m = w.keyed(key, strconv.Itoa(counts[key]))
				m.Priority = r.IntN(3)
				counts[key]++
			}
			msgs = append(msgs, m)
		}
		if _, err := s.Append(w.ctx, store.NewBatch(msgs...)); err != nil {
			return err
		}
		sent += len(msgs)
	}
	return nil
}

func (w *watch) work(s store.Store, r *rand.Rand) error {
	for w.ctx.Err() == nil {
		ds, err := s.Claim(w.ctx, []store.Want{{Topic: w.Topic, Limit: 1 + r.IntN(20), Run: 1 + r.IntN(5)}},
			store.Lease{For: lease})
		if err != nil {
			return err
		}
		if err := w.hold(ds); err != nil {
			return err
		}
		if w.left() == 0 {
			return nil
		}
		if len(ds) == 0 {
			time.Sleep(time.Millisecond) // an idle poll
			continue
		}
		items := w.decide(ds, r)
		refused, err := s.Settle(w.ctx, store.NewBatch(items...))
		if err != nil || len(refused) > 0 {
			return fmt.Errorf("settle refused %v: %w", refused, err)
		}
	}
	return fmt.Errorf("%d of %d messages are not done: %w", w.left(), w.total, w.ctx.Err())
}

// left is how many messages are to be acked yet.
func (w *watch) left() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total - len(w.acked)
}

// hold notes who holds what.
func (w *watch) hold(ds []pawl.Delivery) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	starts := maps.Clone(w.next)
	for _, d := range ds {
		name := laneOf(&d)
		if d.Key != nil {
			if n, _ := strconv.Atoi(string(d.Body)); n != starts[name] {
				return fmt.Errorf("lane %s starts %d; want %d", name, n, starts[name])
			}
			starts[name]++
		}
		if fence, held := w.heldBy[name]; held && fence != d.Token.Fence || w.acked[d.ID] {
			return fmt.Errorf("%s was handed out, but held or acked", name)
		}
		w.heldBy[name] = d.Token.Fence
	}
	return nil
}

// decide settles every run: acks, and at times another end. It notes what is to
// be before the call, for another may claim before the call returns.
func (w *watch) decide(ds []pawl.Delivery, r *rand.Rand) []store.Settlement {
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
			if r.IntN(10) == 0 && w.has(store.CanEmitAtomic) {
				s.Emit = []pawl.Message{{Topic: "children"}}
				w.emitted++
			}
		}
		items = append(items, s)
	}
	return items
}

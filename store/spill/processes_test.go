package spill

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// shared is a store in memory that several stores of a test have as their fallback,
// as processes would have a server. Close leaves it open.
type shared struct {
	*memory.Store
	blind atomic.Bool // lookups fail
	gone  atomic.Bool // everything fails: its process is dead
}

func (h *shared) Close() error { return nil }

func (h *shared) Describe() store.Description {
	d := h.Store.Describe()
	d.Capabilities = maps.Clone(d.Capabilities)
	d.Capabilities[store.CanProcesses] = store.Support{Kept: true}
	return d
}

func (h *shared) unavailable() error {
	if h.blind.Load() || h.gone.Load() {
		return &store.Error{Op: "look", Code: store.ErrUnavailable, Err: errors.New("the line is cut")}
	}
	return nil
}

func (h *shared) Stats(ctx context.Context, topics ...string) ([]store.TopicStats, error) {
	if err := h.unavailable(); err != nil {
		return nil, err
	}
	return h.Store.Stats(ctx, topics...)
}

func (h *shared) List(ctx context.Context, f store.Filter) iter.Seq2[store.Record, error] {
	if err := h.unavailable(); err != nil {
		return func(yield func(store.Record, error) bool) { yield(store.Record{}, err) }
	}
	return h.Store.List(ctx, f)
}

func (h *shared) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	if err := h.unavailable(); err != nil {
		return nil, err
	}
	return h.Store.Settle(ctx, batch)
}

func (h *shared) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	if err := h.unavailable(); err != nil {
		return nil, err
	}
	return h.Store.Claim(ctx, wants, lease)
}

// line is one process's way to a primary store.
type line struct {
	store.Store
	mu   sync.Mutex
	down bool
}

func (l *line) Unwrap() store.Store { return l.Store }

func (l *line) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	l.mu.Lock()
	down := l.down
	l.mu.Unlock()
	if down {
		return nil, failed()
	}
	return l.Store.Append(ctx, batch)
}

func (l *line) set(down bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.down = down
}

// crash ends a store as the end of its process would: nothing is settled, nothing
// closed, no entry emptied.
func crash(s *Store, cut func()) {
	cut()
	s.closed.Store(true)
	s.cancel()
	s.working.Wait()
}

// TestProcesses: a process that has seen no failure sends behind the rows of one
// that has, from the moment on at which that one's call has returned.
func TestProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, kept := newLog(), memory.New(memory.Config{})
		cut := &line{Store: primary}
		one := open(t, cut, &shared{Store: kept}, Config{})
		two := open(t, primary, &shared{Store: kept}, Config{})
		send(t, one, msg("a", 0))
		send(t, two, msg("a", 1))
		time.Sleep(10*time.Second + 250*time.Millisecond) // between two looks
		primary.set(sick("b"))                            // so that nobody brings it back
		cut.set(true)
		send(t, one, msg("b", 0))
		send(t, two, msg("b", 1))
		primary.set(nil)
		cut.set(false)
		send(t, two, msg("b", 2))
		send(t, one, msg("b", 3))
		quiet(t, one, 5*time.Minute)
		quiet(t, two, 5*time.Minute)
		primary.inOrder(t, "a", 2)
		primary.inOrder(t, "b", 4)
	})
}

// TestSeenJustBefore: a process that saw just before that a topic has no rows does not
// pass the first one of another process.
func TestSeenJustBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, kept := newLog(), &stingy{Store: &shared{Store: memory.New(memory.Config{})}} // rows stay
		one := open(t, &line{Store: primary, down: true}, kept, Config{})
		two := open(t, primary, kept, Config{})
		send(t, two, msg("b", 0))
		send(t, one, msg("a", 0))
		send(t, two, msg("a", 1))
		if got := primary.firsts("a"); len(got) != 0 {
			t.Fatalf("%v overtook", got)
		}
	})
}

// TestProcessesTogether: several processes, whose lines to the primary store fail
// one by one; a message goes to another process once the one before has returned.
func TestProcessesTogether(t *testing.T) {
	for range 5 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Logf("seed %d", seed)
			synctest.Test(t, func(t *testing.T) {
				r := &source{r: rand.New(rand.NewPCG(seed, 2))}
				primary, kept := newLog(), memory.New(memory.Config{})
				var lines []*line
				var all []*Store
				for range 3 {
					l := &line{Store: primary}
					lines, all = append(lines, l), append(all, open(t, l, &shared{Store: kept}, Config{}))
				}
				var wg sync.WaitGroup
				const keys, each = 6, 40
				for k := range keys {
					wg.Go(func() {
						for n := range each {
							send(t, all[r.n(3)], msg(fmt.Sprint("key", k), n))
							time.Sleep(time.Duration(r.n(1500)) * time.Millisecond)
							if r.n(8) == 0 {
								lines[r.n(3)].set(r.n(2) == 0)
							}
						}
					})
				}
				wg.Wait()
				for _, l := range lines {
					l.set(false)
				}
				for _, s := range all {
					quiet(t, s, 10*time.Minute)
				}
				for k := range keys {
					primary.inOrder(t, fmt.Sprint("key", k), each)
				}
			})
		})
	}
}

// TestDeadProcess: rows of a process that died are brought back by another one, and
// its entry goes when they are gone.
func TestDeadProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, kept := newLog(), memory.New(memory.Config{})
		cut, own := &line{Store: primary}, &shared{Store: kept}
		one := open(t, cut, own, Config{})
		two := open(t, primary, &shared{Store: kept}, Config{})
		cut.set(true)
		primary.set(sick("a"))
		for n := range 3 {
			send(t, one, msg("a", n))
		}
		crash(one, func() { own.gone.Store(true) })
		primary.set(nil)
		send(t, two, msg("a", 3))
		quiet(t, two, 10*time.Minute)
		primary.inOrder(t, "a", 4)
	})
}

// TestBlind: a process that cannot reach the fallback store goes on, and counts.
func TestBlind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, kept := newLog(), &shared{Store: memory.New(memory.Config{})}
		s := open(t, primary, kept, Config{})
		send(t, s, msg("a", 0))
		kept.gone.Store(true)
		time.Sleep(10 * time.Second)
		for n := 1; n < 5; n++ {
			send(t, s, msg("a", n))
		}
		primary.inOrder(t, "a", 5)
		if s.blind == 0 {
			t.Fatal("it did not say that it is blind")
		}
	})
}

// TestCrash: the rows and latches of a process that died are there when it comes
// back, in a file.
func TestCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spill.db")
	file := func() store.Store {
		f, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	cfg := Config{pace: pace{lease: time.Second, probeFirst: 20 * time.Millisecond, probeMax: 50 * time.Millisecond,
		poll: 50 * time.Millisecond, batch: 10}}
	primary := newLog()
	primary.setDown(true)
	kept := &mortal{Store: file()}
	s := open(t, primary, kept, cfg)
	const keys, each = 20, 10
	for n := range each {
		for k := range keys {
			send(t, s, msg(fmt.Sprint("key", k), n))
		}
	}
	half := make(chan struct{})
	var once sync.Once
	primary.set(func(int, []pawl.Message) fate {
		if len(primary.stored) >= keys*each/2 {
			once.Do(func() { close(half) })
			return fate{delay: time.Hour}
		}
		return fate{}
	})
	<-half
	crash(s, kept.kill)
	primary.set(nil)
	s = open(t, primary, file(), cfg)
	for k := range keys { // before anything was brought back
		send(t, s, msg(fmt.Sprint("key", k), each))
	}
	quiet(t, s, 30*time.Second)
	for k := range keys {
		primary.inOrder(t, fmt.Sprint("key", k), each+1)
	}
	t.Logf("%d duplicates", primary.repeats())
	if n := primary.repeats(); n > cfg.pace.batch {
		t.Errorf("%d duplicates; at most what was on its way, %d, can be", n, cfg.pace.batch)
	}
}

// mortal is a store of a process that may die.
type mortal struct {
	store.Store
	mu   sync.Mutex
	dead bool
}

func (m *mortal) Unwrap() store.Store { return m.Store }

func (m *mortal) kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = true
}

func (m *mortal) Close() error { return nil }

func (m *mortal) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil, closedError("settle")
	}
	return m.Store.Settle(ctx, batch)
}

// TestFileOfTwo: two processes with one file.
func TestFileOfTwo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spill.db")
	cfg := Config{pace: pace{
		probeFirst: 20 * time.Millisecond, probeMax: 50 * time.Millisecond, poll: 50 * time.Millisecond,
		retryFirst: 50 * time.Millisecond, retryMax: 100 * time.Millisecond, maxRetries: 1000,
	}}
	primary := newLog()
	var lines []*line
	var all []*Store
	for range 2 {
		f, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		l := &line{Store: primary}
		lines, all = append(lines, l), append(all, open(t, l, f, cfg))
	}
	const keys, each = 10, 40
	var wg sync.WaitGroup
	for k := range keys {
		wg.Go(func() {
			for n := range each {
				send(t, all[(n+k)%2], msg(fmt.Sprint("key", k), n))
				time.Sleep(time.Millisecond)
				if k == 0 && n%8 == 0 {
					lines[n/8%2].set(n/16%2 == 0)
				}
			}
		})
	}
	wg.Wait()
	lines[0].set(false)
	lines[1].set(false)
	for _, s := range all {
		quiet(t, s, 30*time.Second)
	}
	for k := range keys {
		primary.inOrder(t, fmt.Sprint("key", k), each)
	}
	_, st := stats(t, all[0])
	t.Logf("%d duplicates; %+v", primary.repeats(), st.Totals)
	if n := all[0].blind + all[1].blind; n != 0 {
		t.Errorf("blind %d times", n)
	}
}

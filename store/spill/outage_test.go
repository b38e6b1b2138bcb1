package spill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestOutage: 16 producers, a thousand keys, a primary store that is away for a
// while. Everything arrives once, each key in its order, and nobody helps.
func TestOutage(t *testing.T) {
	synctest.Test(t, outage)
}

func outage(t *testing.T) {
	const producers, keys, each = 16, 400, 20
	primary := newLog()
	primary.plan = func(int, []pawl.Message) fate { return fate{delay: time.Millisecond} }
	s := open(t, primary, memory.New(memory.Config{}), Config{})
	time.AfterFunc(500*time.Millisecond, func() {
		primary.set(func(int, []pawl.Message) fate { return fate{down: true, delay: 5 * time.Millisecond} })
	})
	time.AfterFunc(4*time.Second, func() {
		primary.set(func(int, []pawl.Message) fate { return fate{delay: time.Millisecond} })
	})
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for n := range each {
				for k := p; k < keys; k += producers {
					send(t, s, msg(fmt.Sprint("key", k), n))
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	quiet(t, s, time.Minute)
	for k := range keys {
		primary.inOrder(t, fmt.Sprint("key", k), each)
	}
	if n := primary.repeats(); n != 0 {
		t.Errorf("%d duplicates although nothing was unknown to be stored", n)
	}
	_, st := stats(t, s)
	if st.SpilledFailed+st.SpilledUnknown < 1000 || st.Compensated != st.SpilledFailed+st.SpilledUnknown ||
		st.Lost != 0 || st.Dead != 0 {
		t.Errorf("figures %+v", st)
	}
	if lanes := kept(s); lanes != 0 {
		t.Errorf("%d lanes are left", lanes)
	}
}

// TestDownIsNotWaitedFor: while the primary store is known to be down, only probes
// wait for it.
func TestDownIsNotWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		primary.set(func(int, []pawl.Message) fate { return fate{down: true, delay: 30 * time.Second} })
		s := open(t, primary, memory.New(memory.Config{}), Config{})
		send(t, s, msg("a", 0))
		send(t, s, msg("b", 0))
		begun := time.Now()
		for k := range 100 {
			send(t, s, msg(fmt.Sprint("key", k), 0))
		}
		if took := time.Since(begun); took > 35*time.Second {
			t.Fatalf("a hundred messages waited %v for a primary store that is down", took)
		}
	})
}

// TestRecoveryIsQuick: when the primary store is back, what waits follows at once,
// however long it was away, and no try of the outage counts.
func TestRecoveryIsQuick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		primary.setDown(true)
		fallback := memory.New(memory.Config{})
		s := open(t, primary, fallback, Config{})
		for n := range 50 {
			send(t, s, msg("a", n), msg(fmt.Sprint("key", n), 0))
		}
		lasts := 72 * time.Hour
		if testing.Short() {
			lasts = 12 * time.Hour
		}
		time.Sleep(lasts)
		if dead := deadRows(t, fallback); len(dead) > 0 {
			t.Fatalf("%d rows died of an outage", len(dead))
		}
		primary.setDown(false)
		for len(primary.all()) == 0 { // until a new one, or a row, was tried
			send(t, s, msg("", 0))
			time.Sleep(100 * time.Millisecond)
		}
		quiet(t, s, 5*time.Second)
		primary.inOrder(t, "a", 50)
	})
}

func deadRows(t testing.TB, s store.Store) (dead []store.Record) {
	t.Helper()
	letters, _ := store.As[store.DeadLetters](s)
	for r, err := range letters.Dead(context.Background(), store.DeadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		dead = append(dead, r)
	}
	return dead
}

// denied is a log that takes no call while its user has no right to.
type denied struct {
	*log
	on atomic.Bool
}

func (d *denied) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	if d.on.Load() {
		return nil, &store.Error{Op: "append", Code: store.ErrDenied, Err: errors.New("SASL authentication failed")}
	}
	return d.log.Append(ctx, batch)
}

// TestDeniedRowsWait: rows wait until a right is back that was lost. Such a call says
// nothing of its rows.
func TestDeniedRowsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, fallback := &denied{log: newLog()}, memory.New(memory.Config{})
		primary.setDown(true)
		s := open(t, primary, fallback, Config{pace: pace{batch: 10}})
		for n := range 100 {
			send(t, s, msg(fmt.Sprint("key", n%20), n/20))
		}
		primary.on.Store(true) // the brokers are back, with another password
		primary.set(nil)
		time.Sleep(time.Hour)
		primary.on.Store(false)
		quiet(t, s, 10*time.Minute)
		if dead := deadRows(t, fallback); len(dead) > 0 {
			t.Errorf("%d rows died: %s", len(dead), dead[0].Reason)
		}
		for k := range 20 {
			primary.inOrder(t, fmt.Sprint("key", k), 5)
		}
	})
}

// TestHotKeyStarvesNobody: the rows of a topic come back while another one gets new rows
// faster than the primary store takes them, and latches are verified meanwhile.
func TestHotKeyStarvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, fallback := newLog(), memory.New(memory.Config{})
		primary.setDown(true)
		s := open(t, primary, fallback, Config{})
		hot := func(n int) pawl.Message {
			m := msg("hot", n)
			m.Topic = "audit" // comes before orders
			return m
		}
		send(t, s, hot(0))
		send(t, s, msg("x", 0))
		send(t, s, msg("cancelled", 0))
		if refused, err := fallback.Cancel(t.Context(), "cancelled-0"); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		primary.set(func(int, []pawl.Message) fate { return fate{delay: 15 * time.Millisecond} })
		for n := 1; n <= 2000; n++ { // for 10 seconds
			send(t, s, hot(n))
			time.Sleep(5 * time.Millisecond)
		}
		primary.inOrder(t, "x", 1)
		if st, _ := stats(t, s); st.LatchedKeys != 1 {
			t.Errorf("%d keys are latched; want that of the rows that come all the time", st.LatchedKeys)
		}
		quiet(t, s, time.Minute)
		primary.inOrder(t, "hot", 2001)
	})
}

// TestFreshDoesNotOvertake: a message sent while rows of its key wait goes behind
// them, though the primary store takes everything else.
func TestFreshDoesNotOvertake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		primary.set(func(int, []pawl.Message) fate {
			return fate{each: func(m pawl.Message) error {
				if string(m.Key) == "a" {
					return failed()
				}
				return nil
			}}
		})
		s := open(t, primary, memory.New(memory.Config{}), Config{})
		send(t, s, msg("b", 0), msg("a", 0))
		time.Sleep(1500 * time.Millisecond) // the compensator looks every second
		primary.set(nil)
		send(t, s, msg("b", 1), msg("a", 1))
		primary.inOrder(t, "b", 2)
		primary.inOrder(t, "a", 0)
		quiet(t, s, 2*time.Minute)
		primary.inOrder(t, "a", 2)
		send(t, s, msg("a", 2))
		primary.inOrder(t, "a", 3)
	})
}

// TestOnTheirWay: a call that was made while another of the same key is on its way
// does not overtake it when that fails.
func TestOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, hold := newLog(), make(chan struct{})
		primary.set(func(call int, items []pawl.Message) fate {
			if call == 1 {
				return fate{down: true, until: hold}
			}
			return fate{}
		})
		s := open(t, primary, memory.New(memory.Config{}), Config{})
		var wg sync.WaitGroup
		for n := range 5 {
			wg.Go(func() { send(t, s, msg("a", n), msg(fmt.Sprint("other", n), 0)) })
			synctest.Wait()
		}
		send(t, s, msg("free", 0)) // nobody else waits
		close(hold)
		wg.Wait()
		quiet(t, s, time.Minute)
		primary.inOrder(t, "a", 5)
	})
}

// TestWaitingEndsWithTheContext: a call that waits for another of its key gives up
// when its caller does, and leaves no trace.
func TestWaitingEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, hold := newLog(), make(chan struct{})
		primary.set(func(call int, items []pawl.Message) fate { return fate{until: hold} })
		s := open(t, primary, memory.New(memory.Config{}), Config{})
		var wg sync.WaitGroup
		wg.Go(func() { send(t, s, msg("a", 0)) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Append(ctx, store.NewBatch(msg("a", 7))); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		close(hold)
		wg.Wait()
		send(t, s, msg("a", 1))
		primary.inOrder(t, "a", 2)
		if lanes := kept(s); lanes != 0 {
			t.Fatalf("%d lanes are left", lanes)
		}
	})
}

// TestSlowPrimaryLeavesTime: of a caller's deadline the primary store gets three
// quarters, so that there is time to spill.
func TestSlowPrimaryLeavesTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		primary.set(func(int, []pawl.Message) fate { return fate{delay: time.Hour} })
		s := open(t, primary, memory.New(memory.Config{}), Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		if _, err := s.Append(ctx, store.NewBatch(msg("a", 0))); err != nil {
			t.Fatal(err)
		}
		if _, st := stats(t, s); st.SpilledUnknown != 1 {
			t.Fatalf("figures %+v", st)
		}
	})
}

// TestRandomFaults: whatever fails, in whatever way, everything accepted arrives,
// and each key in its order.
func TestRandomFaults(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Logf("seed %d", seed)
			synctest.Test(t, func(t *testing.T) { randomFaults(t, seed) })
		})
	}
}

func randomFaults(t *testing.T, seed uint64) {
	r := &source{r: rand.New(rand.NewPCG(seed, 1))}
	primary, fallback := newLog(), &flaky{Store: memory.New(memory.Config{})}
	primary.set(func(int, []pawl.Message) fate {
		f := fate{delay: time.Duration(r.n(20)) * time.Millisecond, down: r.n(3) == 0, unsure: r.n(6) == 0}
		if r.n(3) == 0 {
			f.each = func(pawl.Message) error {
				switch r.n(12) {
				case 0, 1:
					return failed()
				case 2:
					return unsure(true)
				case 3:
					return unsure(false)
				}
				return nil
			}
		}
		return f
	})
	s := open(t, primary, fallback, Config{pace: pace{maxRetries: 1000, retryFirst: 100 * time.Millisecond,
		retryMax: time.Second}})
	const keys, each = 12, 30
	var wg sync.WaitGroup
	for k := range keys {
		wg.Go(func() {
			for n := 0; n < each; {
				var msgs []pawl.Message
				for range 1 + r.n(3) {
					if n < each {
						msgs = append(msgs, msg(fmt.Sprint("key", k), n))
						n++
					}
				}
				batch := store.NewBatch(msgs...)
				for { // a caller does not give up
					if r.n(8) == 0 {
						fallback.fail(&store.Error{Op: "append",
							Code: []error{store.ErrFull, store.ErrUnavailable}[r.n(2)]})
					}
					_, err := s.Append(t.Context(), batch)
					fallback.fail(nil)
					if err == nil {
						break
					}
					if _, ok := errors.AsType[*LostError](err); !ok {
						t.Error(err)
						return
					}
				}
				time.Sleep(time.Duration(r.n(50)) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	primary.set(nil)
	quiet(t, s, time.Hour)
	for k := range keys {
		primary.inOrder(t, fmt.Sprint("key", k), each)
	}
	_, st := stats(t, s)
	t.Logf("%d duplicates; %+v", primary.repeats(), st.Totals)
	if lanes := kept(s); lanes != 0 {
		t.Errorf("%d lanes are left", lanes)
	}
}

// source is random numbers for several.
type source struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (s *source) n(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.IntN(n)
}

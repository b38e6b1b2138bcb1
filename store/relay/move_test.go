package relay_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/relay"
)

// wire is a log that finds no duplicates, as Kafka does not, and is told what it
// takes.
type wire struct {
	*memory.Store
	call func(ctx context.Context, msgs []pawl.Message) error // fails a call as a whole
	each func(m *pawl.Message) error                          // is the error of a receipt

	mu    sync.Mutex
	times map[string]int // how often a message is in the log, by its id
	order []string       // ids
}

func (w *wire) Append(ctx context.Context, b store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts, err := store.Admit(b)
	if err == nil && w.call != nil {
		err = w.call(ctx, b.Items)
	}
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	closed := map[string]error{} // keys
	for i := range b.Items {
		m, r := &b.Items[i], &receipts[i]
		if r.Err = closed[string(m.Key)]; r.Err == nil && w.each != nil {
			r.Err = w.each(m)
		}
		switch r.Outcome() {
		case store.Stored:
			w.times[r.ID]++
			w.order = append(w.order, r.ID)
		case store.Failed, store.Unknown:
			err = r.Err
			if m.Key != nil {
				closed[string(m.Key)] = r.Err
			}
		}
	}
	return receipts, err
}

// has tells how many messages are in the log, and how many times too often.
func (w *wire) has() (messages, again int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.times {
		again += n - 1
	}
	return len(w.times), again
}

// overWire opens a relay over a wire. In a bubble of synctest, nothing of it outlives
// the test.
func overWire(t *testing.T, w *wire, side store.Store, c relay.Config) *relay.Store {
	t.Helper()
	w.Store, w.times = memory.New(memory.Config{}), map[string]int{}
	s, err := relay.New(w, side, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// later is a message that goes by the side store.
func later(topic, id string, d time.Duration) pawl.Message {
	return pawl.Message{Topic: topic, ID: id, Delay: d}
}

// TestATopicHoldsUpNoOther: neither one that the log knows nothing of, nor one that it
// is long silent about.
func TestATopicHoldsUpNoOther(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"unknown": func(context.Context) error { return &store.Error{Op: "append", Code: store.ErrNotFound} },
		"silent": func(ctx context.Context) error {
			<-ctx.Done()
			return &store.Error{Op: "append", Code: store.ErrUnavailable, Err: ctx.Err()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &wire{call: func(ctx context.Context, msgs []pawl.Message) error {
					for i := range msgs {
						if msgs[i].Topic == "gone" {
							return fail(ctx)
						}
					}
					return nil
				}}
				s := overWire(t, w, memory.New(memory.Config{}), relay.Config{})
				put(t, s, later("gone", "g", time.Second), later("mail", "0", time.Second),
					later("mail", "1", 10*time.Second))
				time.Sleep(15 * time.Second)
				if n, _ := w.has(); n != 2 {
					t.Fatalf("%d of 2 messages came over beside a topic that the log does not take", n)
				}
			})
		})
	}
}

// TestLargeMessagesOfManyTopics: a claim gives the first message of each topic whatever
// its size, and all of them together are more than the log takes in a call.
func TestLargeMessagesOfManyTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{}
		s := overWire(t, w, memory.New(memory.Config{}), relay.Config{})
		for n := range 5 {
			m := later(fmt.Sprint("t", n), fmt.Sprint(n), time.Second)
			m.Body = make([]byte, pawl.MaxBody)
			put(t, s, m)
		}
		time.Sleep(10 * time.Second)
		if n, again := w.has(); n != 5 || again > 0 {
			t.Fatalf("%d of 5 came over, and %d again", n, again)
		}
	})
}

// TestKeysThatFailLetOthersPass: more lanes than a claim takes fail for as long as the
// test lasts, and are due before one that is well.
func TestKeysThatFailLetOthersPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		w := &wire{each: func(m *pawl.Message) error {
			if string(m.Key) != "well" && !well.Load() {
				return &store.Error{Op: "append", Code: store.ErrUnavailable}
			}
			return nil
		}}
		s := overWire(t, w, memory.New(memory.Config{}), relay.Config{Batch: 10})
		for n := range 50 {
			m := later("a", fmt.Sprint("sick", n), time.Second)
			m.Key = []byte(m.ID)
			put(t, s, m)
		}
		m := later("a", "well", 2*time.Second)
		m.Key = []byte(m.ID)
		put(t, s, m)
		time.Sleep(time.Minute)
		if n, _ := w.has(); n != 1 {
			t.Fatal("a key that is well did not come over within a minute")
		}
		well.Store(true)
		time.Sleep(2 * time.Minute)
		if n, again := w.has(); n != 51 || again > 0 {
			t.Fatalf("%d of 51 came over when all were well, and %d again", n, again)
		}
	})
}

// generous is a side store that does not know how much it gives, as one that
// compresses does not.
type generous struct{ *memory.Store }

func (g generous) Claim(ctx context.Context, wants []store.Want, l store.Lease) ([]pawl.Delivery, error) {
	for i := range wants {
		wants[i].MaxBytes = 0
	}
	return g.Store.Claim(ctx, wants, l)
}

// TestACallIsNoLargerThanTheLogTakes: and when the first of several calls fails, what
// stands behind it does not go in the next.
func TestACallIsNoLargerThanTheLogTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := false
		w := &wire{each: func(m *pawl.Message) error {
			if m.ID == "0" && !failed {
				failed = true
				return &store.Error{Op: "append", Code: store.ErrUnavailable}
			}
			return nil
		}}
		s := overWire(t, w, generous{memory.New(memory.Config{})}, relay.Config{})
		for n := range 5 {
			m := later("a", fmt.Sprint(n), time.Second)
			m.Key, m.Body = []byte("k"), make([]byte, pawl.MaxBody)
			put(t, s, m)
		}
		time.Sleep(10 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if want := []string{"0", "1", "2", "3", "4"}; !failed || !slices.Equal(w.order, want) {
			t.Fatalf("in the log: %q; want %q, after a failure", w.order, want)
		}
	})
}

// TestWhatStandsBehindARefusedMessageComesOnce: the dead letter ends the run, and the
// acks of what stands behind it do not count. All of that is in the log.
func TestWhatStandsBehindARefusedMessageComesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{each: func(m *pawl.Message) error {
			if string(m.Body) == "bad" {
				return &pawl.InvalidError{Field: "body", Why: "is bad"}
			}
			return nil
		}}
		side := memory.New(memory.Config{})
		s := overWire(t, w, side, relay.Config{})
		for n := range 30 {
			m := later("a", fmt.Sprint(n), time.Second)
			if m.Key = []byte("k"); n%10 == 0 {
				m.Body = []byte("bad")
			}
			put(t, s, m)
		}
		time.Sleep(time.Minute)
		if n, again := w.has(); n != 27 || again > 0 {
			t.Errorf("%d of 27 came over, and %d again", n, again)
		}
		if st := statsOf(t, side, "relay.a"); st.Acked != 27 || st.Dead != 3 {
			t.Errorf("in the side store: %+v", st)
		}
	})
}

func statsOf(t *testing.T, s store.Topics, topic string) store.TopicStats {
	t.Helper()
	stats, err := s.Stats(t.Context(), topic)
	if err != nil || len(stats) != 1 {
		t.Fatal(stats, err)
	}
	return stats[0]
}

// forgetful is a side store whose first settle fails: before it did anything, or after.
type forgetful struct {
	*memory.Store
	after  bool
	failed atomic.Bool
}

func (f *forgetful) Settle(ctx context.Context, b store.Batch[store.Settlement]) ([]store.Refusal, error) {
	if f.failed.Swap(true) {
		return f.Store.Settle(ctx, b)
	}
	if f.after {
		if _, err := f.Store.Settle(ctx, b); err != nil {
			return nil, err
		}
	}
	return nil, &store.Error{Op: "settle", Code: store.ErrUnavailable}
}

// TestWhatCouldNotBeAckedComesOnce: when its lease has ended, it is acked.
func TestWhatCouldNotBeAckedComesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, side := &wire{}, &forgetful{Store: memory.New(memory.Config{})}
		s := overWire(t, w, side, relay.Config{})
		put(t, s, later("a", "0", time.Second), later("a", "1", time.Second), later("a", "2", time.Second))
		time.Sleep(5 * time.Minute)
		if n, again := w.has(); n != 3 || again > 0 {
			t.Errorf("%d of 3 came over, and %d again", n, again)
		}
		if st := statsOf(t, side, "relay.a"); st.Acked != 3 {
			t.Errorf("in the side store: %+v", st)
		}
	})
}

// TestAnIDThatIsStoredAnewComesOver: although the process does not know that the ack
// of the first one counted.
func TestAnIDThatIsStoredAnewComesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, side := &wire{}, &forgetful{Store: memory.New(memory.Config{}), after: true}
		s := overWire(t, w, side, relay.Config{})
		put(t, s, later("a", "0", time.Second))
		time.Sleep(5 * time.Minute)
		put(t, s, later("a", "0", time.Second))
		time.Sleep(5 * time.Minute)
		if _, again := w.has(); again != 1 {
			t.Error("what was stored anew, when the first was gone, did not come over")
		}
	})
}

// TestCloseWaitsForWhatIsOnItsWay: for as long as the log may be expected to answer, and
// then no longer.
func TestCloseWaitsForWhatIsOnItsWay(t *testing.T) {
	for _, takes := range []time.Duration{2 * time.Second, 30 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, side := &wire{call: func(ctx context.Context, _ []pawl.Message) error {
					select {
					case <-time.After(takes):
						return nil
					case <-ctx.Done():
						return &store.Error{Op: "append", Code: store.ErrUnavailable, Err: ctx.Err()}
					}
				}}, &lasting{memory.New(memory.Config{})}
				s := overWire(t, w, side, relay.Config{})
				put(t, s, later("a", "0", time.Second))
				time.Sleep(1500 * time.Millisecond) // it is on its way for half a second
				began := time.Now()
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				took, st := time.Since(began), statsOf(t, side, "relay.a")
				if takes == 2*time.Second && (took > takes || st.Acked != 1) {
					t.Errorf("closed after %v, with %+v in the side store; what came over is to be acked", took, st)
				}
				if takes == 30*time.Second && (took > 10*time.Second || st.Waiting+st.Delayed != 1) {
					t.Errorf("closed after %v, with %+v in the side store; what did not come over is to be given back",
						took, st)
				}
			})
		})
	}
}

// lasting can be asked when it is closed.
type lasting struct{ *memory.Store }

func (*lasting) Close() error { return nil }

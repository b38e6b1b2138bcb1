package relay_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/relay"
	"github.com/pawl-dev/pawl/store/storetest"
)

// log is a store that takes neither unique keys nor delays, and can be told to
// fail.
type log struct {
	*memory.Store
	mu   sync.Mutex
	fail error
	got  []string // bodies, in the order of appending
	// twice lists every message twice, as a log does that has it twice.
	twice bool
}

func (l *log) List(ctx context.Context, f store.Filter) iter.Seq2[store.Record, error] {
	if !l.twice {
		return l.Store.List(ctx, f)
	}
	return func(yield func(store.Record, error) bool) {
		n := 0
		for r, err := range l.Store.List(ctx, store.Filter{Topic: f.Topic}) {
			for range 2 {
				if n++; !yield(r, err) || n == f.Limit {
					return
				}
			}
		}
	}
}

func (l *log) Append(ctx context.Context, b store.Batch[pawl.Message]) ([]store.Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fail != nil {
		return nil, l.fail
	}
	receipts, err := l.Store.Append(ctx, b)
	if err != nil {
		return receipts, err // closing, the mover is interrupted
	}
	for i := range b.Items {
		m := &b.Items[i]
		if m.Unique.Key != "" || m.Delay > 0 {
			return nil, fmt.Errorf("a unique key or delay came to the log: %+v", m)
		}
		if receipts[i].Err == nil {
			l.got = append(l.got, string(m.Body))
		}
	}
	return receipts, err
}

func (l *log) bodies() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.got)
}

func (l *log) failing(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

func open(t *testing.T) (*relay.Store, *log, *memory.Store) {
	t.Helper()
	l, side := &log{Store: memory.New(memory.Config{})}, memory.New(memory.Config{})
	s, err := relay.New(l, side, relay.Config{Poll: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s, l, side
}

func unique(body, key string) pawl.Message {
	return pawl.Message{Topic: "a", Body: []byte(body), Unique: pawl.Unique{Key: key, For: pawl.Forever}}
}

func put(t *testing.T, s store.Store, msgs ...pawl.Message) []store.Receipt {
	t.Helper()
	receipts, err := s.Append(t.Context(), store.NewBatch(msgs...))
	if err != nil {
		t.Fatal(err)
	}
	return receipts
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not within 30 s: " + what)
		}
	}
}

func claim(t *testing.T, s store.Store) (ds []pawl.Delivery) {
	t.Helper()
	eventually(t, "something to claim", func() bool {
		var err error
		ds, err = s.Claim(t.Context(), []store.Want{{Topic: "a", Limit: 100}}, store.Lease{For: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return len(ds) > 0
	})
	return ds
}

func TestUniqueKeysAdmitOne(t *testing.T) {
	s, l, _ := open(t)
	first := put(t, s, unique("one", "u"), unique("two", "u"), pawl.Message{Topic: "a", Body: []byte("plain")})
	if first[0].DuplicateOf != "" || first[1].DuplicateOf != first[0].ID || first[2].DuplicateOf != "" {
		t.Fatalf("receipts %+v", first)
	}
	eventually(t, "both are in the log", func() bool { return len(l.bodies()) == 2 })
	if again := put(t, s, unique("three", "u")); again[0].DuplicateOf != first[0].ID {
		t.Fatalf("after it was brought over: %+v", again[0])
	}
	ids := map[string]bool{}
	for _, d := range claim(t, s) {
		ids[d.ID] = true
	}
	if !ids[first[0].ID] {
		t.Fatalf("the message has not kept its id %s: %v", first[0].ID, ids)
	}
}

func TestDelaysAreKept(t *testing.T) {
	s, l, _ := open(t)
	put(t, s, pawl.Message{Topic: "a", Body: []byte("late"), Delay: 300 * time.Millisecond})
	time.Sleep(100 * time.Millisecond)
	if got := l.bodies(); len(got) > 0 {
		t.Fatalf("%q came before it was due", got)
	}
	eventually(t, "it is in the log", func() bool { return len(l.bodies()) == 1 })
}

func TestOrderOfAKeyIsKept(t *testing.T) {
	s, l, _ := open(t)
	var want []string
	for i := range 300 {
		m := unique(fmt.Sprint(i), fmt.Sprint(i))
		m.Key = []byte("k")
		put(t, s, m)
		want = append(want, fmt.Sprint(i))
		if i == 100 {
			l.failing(&store.Error{Op: "append", Code: store.ErrUnavailable})
		}
		if i == 200 {
			l.failing(nil)
		}
	}
	eventually(t, "all are in the log", func() bool { return len(l.bodies()) >= len(want) })
	if got := l.bodies(); !slices.Equal(got, want) {
		t.Fatalf("in the log: %v", got)
	}
}

func TestEmitsKeepTheirIDs(t *testing.T) {
	s, l, _ := open(t)
	put(t, s, pawl.Message{Topic: "a", Body: []byte("parent")})
	d := claim(t, s)[0]
	emit := []pawl.Message{unique("zero", "0"), {Topic: "a", Body: []byte("one")}, unique("two", "0")}
	items := []store.Settlement{{Token: d.Token, ID: d.ID, Verdict: store.Ack, Emit: emit}}
	if refused, err := s.Settle(t.Context(), store.NewBatch(items...)); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	if len(items[0].Emit) != 3 {
		t.Error("the caller's batch was changed")
	}
	eventually(t, "two of three are there", func() bool { return len(l.bodies()) == 3 })
	got := map[string]string{}
	for r, err := range s.List(t.Context(), store.Filter{Topic: "a"}) {
		if err != nil {
			t.Fatal(err)
		}
		got[string(r.Body)] = r.ID
	}
	if len(got) != 2 || got["zero"] != pawl.EmitID(d.ID, 0) || got["one"] != pawl.EmitID(d.ID, 1) {
		t.Fatalf("emitted %v", got)
	}
}

func TestNothingIsAckedWithoutItsEmits(t *testing.T) {
	s, l, side := open(t)
	put(t, s, pawl.Message{Topic: "a", Body: []byte("parent")})
	d := claim(t, s)[0]
	l.failing(&store.Error{Op: "append", Code: store.ErrUnavailable})
	settle := store.NewBatch(store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack,
		Emit: []pawl.Message{{Topic: "a"}, unique("u", "u")}})
	if _, err := s.Settle(t.Context(), settle); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("settled without what it emits: %v", err)
	}
	l.failing(nil)
	if refused, err := s.Settle(t.Context(), settle); err != nil || len(refused) > 0 {
		t.Fatalf("the repetition: %v, %v", refused, err)
	}
	stats, _ := side.Stats(t.Context(), "relay.a")
	if len(stats) != 1 || stats[0].Appended != 1 {
		t.Fatalf("what was emitted twice is there %+v", stats)
	}
}

// TestOneBadEmitIsRefusedAlone: the others are settled by the same call, so that nobody
// repeats what they emitted. What is known to be refused goes without the rest of its item.
func TestOneBadEmitIsRefusedAlone(t *testing.T) {
	inner := memory.New(memory.Config{})
	s, err := relay.New(plainLog{refusing{inner}}, memory.New(memory.Config{}), relay.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	put(t, s, pawl.Message{Topic: "a"}, pawl.Message{Topic: "a"}, pawl.Message{Topic: "a"}, pawl.Message{Topic: "a"})
	out := pawl.Message{Topic: "out"}
	emits := [][]pawl.Message{{out}, {{Topic: "out", Body: []byte("bad")}}, {out, {Topic: "own"}}, nil}
	var items []store.Settlement
	for i, d := range claim(t, s) {
		items = append(items, store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack, Emit: emits[i]})
	}
	refused, err := s.Settle(t.Context(), store.NewBatch(items...))
	if err != nil || len(refused) != 2 || refused[0].Index != 1 || refused[1].Index != 2 {
		t.Fatalf("refused %v, %v; want items 1 and 2 alone", refused, err)
	}
	for _, r := range refused {
		if bad, ok := errors.AsType[*pawl.InvalidError](r.Err); !ok || bad.Field != "emit" {
			t.Errorf("refused with %v", r.Err)
		}
	}
	if len(items[2].Emit) != 2 {
		t.Error("the caller's batch was changed")
	}
	if st := statsOf(t, inner, "a"); st.Acked != 2 {
		t.Errorf("of the four: %+v", st)
	}
	if st := statsOf(t, inner, "out"); st.Appended != 1 {
		t.Errorf("emitted: %+v; want one", st)
	}
}

func TestWhatWaitsIsCountedAndListed(t *testing.T) {
	s, l, _ := open(t)
	l.failing(&store.Error{Op: "append", Code: store.ErrUnavailable})
	id := put(t, s, unique("waits", "u"))[0].ID
	stats, err := s.Stats(t.Context(), "a")
	if err != nil || len(stats) != 1 || stats[0].Waiting+stats[0].Delayed != 1 || stats[0].Appended != 1 {
		t.Fatalf("while the log is away: %+v, %v", stats, err)
	}
	if r, err := s.Get(t.Context(), id); err != nil || r.Topic != "a" {
		t.Fatalf("get: %+v, %v", r, err)
	}
	n := 0
	for r := range s.List(t.Context(), store.Filter{Topic: "a"}) {
		if n++; r.ID != id || r.Topic != "a" {
			t.Fatalf("listed %+v", r)
		}
	}
	if n != 1 {
		t.Fatalf("listed %d", n)
	}
	l.failing(nil)
	eventually(t, "it is brought over", func() bool {
		stats, _ := s.Stats(t.Context(), "a")
		return len(l.bodies()) == 1 && stats[0].Waiting == 1 && stats[0].Appended == 1
	})
}

func TestWhatTheLogRefusesIsADeadLetter(t *testing.T) {
	l, side := memory.New(memory.Config{}), memory.New(memory.Config{})
	s, err := relay.New(refusing{l}, side, relay.Config{Poll: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	put(t, s, unique("bad", "b"), unique("good", "g"))
	eventually(t, "one is dead, the other in the log", func() bool {
		n := 0
		for range side.Dead(t.Context(), store.DeadFilter{}) {
			n++
		}
		stats, _ := l.Stats(t.Context(), "a")
		return n == 1 && len(stats) == 1 && stats[0].Appended == 1
	})
}

// refusing refuses bodies that are bad.
type refusing struct{ *memory.Store }

func (r refusing) Append(ctx context.Context, b store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts := make([]store.Receipt, len(b.Items))
	for i, m := range b.Items {
		if string(m.Body) == "bad" {
			receipts[i] = store.Receipt{ID: m.ID, Err: &pawl.InvalidError{Field: "body", Why: "is bad"}}
			continue
		}
		got, err := r.Store.Append(ctx, store.NewBatch(m))
		if err != nil {
			return nil, err
		}
		receipts[i] = got[0]
	}
	return receipts, nil
}

func TestSideMustKeepWhatTheLogLacks(t *testing.T) {
	if _, err := relay.New(memory.New(memory.Config{}), bare{memory.New(memory.Config{})},
		relay.Config{}); !errors.Is(err, store.ErrUnsupported) {
		t.Fatal(err)
	}
}

type bare struct{ store.Store }

// TestLimitCountsWhatIsYielded: a message that was brought over twice counts
// once, and what is in the side store for others not at all.
func TestLimitCountsWhatIsYielded(t *testing.T) {
	s, l, side := open(t)
	l.twice = true
	put(t, s, pawl.Message{Topic: "a", Body: []byte("1")}, pawl.Message{Topic: "a", Body: []byte("2")},
		pawl.Message{Topic: "a", Body: []byte("3")})
	for range 5 {
		put(t, side, pawl.Message{Topic: "another", Body: []byte("x")})
	}
	l.failing(&store.Error{Op: "append", Code: store.ErrUnavailable})
	put(t, s, unique("4", "u"))
	for limit := 1; limit < 6; limit++ {
		for _, f := range []store.Filter{{Limit: limit}, {Topic: "a", Limit: limit}} {
			var got []string
			for r, err := range s.List(t.Context(), f) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(r.Body))
			}
			if want := []string{"1", "2", "3", "4"}[:min(limit, 4)]; !slices.Equal(got, want) {
				t.Errorf("%+v: listed %q; want %q", f, got, want)
			}
		}
	}
}

// plainLog is a log that takes neither delays nor a topic of its own.
type plainLog struct{ store.Store }

func (p plainLog) Unwrap() store.Store { return p.Store }

func (p plainLog) Fit(m *pawl.Message) error {
	if m.Delay > 0 || m.Unique.Key != "" || m.Topic == "own" {
		return &store.Error{Op: "append", Code: store.ErrUnsupported}
	}
	return nil
}

// What waits in the side store fits, if the log takes it afterwards.
func TestWhatTheLogTakesLaterFits(t *testing.T) {
	s, err := relay.New(plainLog{memory.New(memory.Config{})}, memory.New(memory.Config{}), relay.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	m := pawl.Message{Topic: "a", Delay: time.Second, Unique: pawl.Unique{Key: "u"}}
	if err := store.Fit(s, &m); err != nil || m.Delay == 0 || m.Unique.Key == "" {
		t.Errorf("%+v: %v", m, err)
	}
	m.Topic = "own"
	if err := store.Fit(s, &m); !errors.Is(err, store.ErrUnsupported) {
		t.Errorf("%+v: %v", m, err)
	}
}

// TestReceiptsTellWhatIsStored: whichever of the two stores fails, and however, no
// receipt calls a message stored that is nowhere.
func TestReceiptsTellWhatIsStored(t *testing.T) {
	for _, failing := range []string{"log", "side"} {
		t.Run(failing, func(t *testing.T) {
			storetest.Receipts(t, func(t testing.TB, inner store.Store) (store.Store, func(string) bool) {
				sound := memory.New(memory.Config{})
				l, side := inner, store.Store(sound)
				if failing == "side" {
					l, side = sound, inner
				}
				s, err := relay.New(l, side, relay.Config{Poll: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				return s, storetest.Keepers(t, side, l) // in the direction in which messages move
			})
		})
	}
}

package spill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// log is a primary store that knows no duplicates, as a log does. What it stores is
// never taken out. It fails by plan.
type log struct {
	store.Store
	can store.Capabilities

	mu      sync.Mutex
	stored  []pawl.Message
	ids     map[string]int
	calls   int
	dedupes bool
	// plan says what becomes of a call, of each message; nil: all is well.
	plan func(call int, items []pawl.Message) fate
}

// fate of a call.
type fate struct {
	down   bool                       // an error without receipts, nothing is stored
	unsure bool                       // the same, but everything is stored
	each   func(m pawl.Message) error // of one message; those of its key behind it fail with it
	delay  time.Duration
	until  chan struct{} // before anything happens
}

func newLog() *log {
	return &log{Store: memory.New(memory.Config{}), can: memory.Description().Capabilities, ids: map[string]int{}}
}

func (l *log) Describe() store.Description {
	d := memory.Description()
	d.Capabilities = l.can
	return d
}

var errNoBroker = errors.New("no broker answers")

func (l *log) set(plan func(call int, items []pawl.Message) fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.plan = plan
}

func (l *log) setDown(down bool) {
	l.set(func(int, []pawl.Message) fate { return fate{down: down} })
}

func (l *log) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	var f fate
	l.calls++
	if l.plan != nil {
		f = l.plan(l.calls, batch.Items)
	}
	l.mu.Unlock()
	if f.until != nil {
		<-f.until
	}
	if f.delay > 0 && store.Sleep(ctx, f.delay) != nil {
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	unavailable := &store.Error{Op: "append", Code: store.ErrUnavailable, Err: errNoBroker}
	if f.down {
		return nil, unavailable
	}
	receipts, bad := make([]store.Receipt, len(batch.Items)), map[string]error{}
	var err error
	for i, m := range batch.Items {
		receipts[i].ID = m.ID
		if f.each != nil && receipts[i].Err == nil {
			receipts[i].Err = f.each(m)
		}
		if m.Key != nil && bad[string(m.Key)] != nil {
			receipts[i].Err = bad[string(m.Key)]
		}
		switch receipts[i].Outcome() {
		case store.Failed, store.Unknown:
			err = receipts[i].Err
			if m.Key != nil {
				bad[string(m.Key)] = err
			}
			if !errors.Is(err, errStored) {
				continue
			}
		case store.Refused:
			continue
		}
		if l.dedupes && l.ids[m.ID] > 0 {
			receipts[i].DuplicateOf = m.ID
			continue
		}
		l.ids[m.ID]++
		l.stored = append(l.stored, m)
	}
	if f.unsure {
		return nil, unavailable
	}
	return receipts, err
}

// errStored in an error of a message: it is stored all the same.
var errStored = errors.New("the answer was lost")

func failed() error { return &store.Error{Op: "append", Code: store.ErrUnavailable, Err: errNoBroker} }
func unsure(stored bool) error {
	if stored {
		return &store.Error{Op: "append", Code: store.ErrUnknown, Err: errStored}
	}
	return &store.Error{Op: "append", Code: store.ErrUnknown, Err: errNoBroker}
}

func (l *log) all() []pawl.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.stored)
}

// firsts are the bodies of a key's messages, each where it came first.
func (l *log) firsts(key string) (bodies []string) {
	seen := map[string]bool{}
	for _, m := range l.all() {
		if string(m.Key) == key && !seen[m.ID] {
			seen[m.ID] = true
			bodies = append(bodies, string(m.Body))
		}
	}
	return bodies
}

// repeats is how many messages are there more than once, and how often.
func (l *log) repeats() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, times := range l.ids {
		n += times - 1
	}
	return n
}

// inOrder fails unless a key has exactly n messages, numbered from 0, in order.
func (l *log) inOrder(t testing.TB, key string, n int) {
	t.Helper()
	want := make([]string, n)
	for i := range want {
		want[i] = strconv.Itoa(i)
	}
	if got := l.firsts(key); !slices.Equal(got, want) {
		t.Fatalf("key %s has %v; want %v", key, got, want)
	}
}

// msg is a message of the topic orders; an empty key is none.
func msg(key string, n int) pawl.Message {
	m := pawl.Message{ID: fmt.Sprintf("%s-%d", key, n), Topic: "orders", Body: []byte(strconv.Itoa(n))}
	if key != "" {
		m.Key = []byte(key)
	}
	return m
}

// open makes a store over a log and a fallback store, which it closes.
func open(t testing.TB, primary, fallback store.Store, cfg Config) *Store {
	t.Helper()
	s, err := New(primary, fallback, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// send appends messages that must be accepted.
func send(t testing.TB, s store.Store, msgs ...pawl.Message) []store.Receipt {
	t.Helper()
	receipts, err := s.Append(t.Context(), store.NewBatch(msgs...))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range receipts {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	return receipts
}

func stats(t testing.TB, s *Store) (Stats, TopicStats) {
	t.Helper()
	st, err := s.Stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range st.Topics {
		if topic.Topic == "orders" {
			return st, topic
		}
	}
	return st, TopicStats{}
}

// quiet waits until no row is pending and no key latched.
func quiet(t testing.TB, s *Store, bound time.Duration) {
	t.Helper()
	var st Stats
	for until := time.Now().Add(bound); time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		left := int64(0)
		st, _ = stats(t, s)
		for _, topic := range st.Topics {
			left += topic.Pending
		}
		if lanes := kept(s); left == 0 && st.LatchedKeys == 0 && lanes == 0 {
			return
		}
	}
	t.Fatalf("after %v: %d lanes, %+v", bound, kept(s), st)
}

// kept is how many keys have calls on their way.
func kept(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.turns)
}

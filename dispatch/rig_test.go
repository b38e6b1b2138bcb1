package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/pipeline/crawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a store in memory and the dispatchers over it, in a bubble.
type rig struct {
	*testing.T
	mem   *memory.Store
	store *hooked
	d     *dispatch.Dispatcher
	stop  context.CancelFunc
	done  chan error
}

// bubble runs a test in a synctest bubble, with a rig.
func bubble(t *testing.T, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		mem := memory.New(memory.Config{})
		r := &rig{T: t, mem: mem, store: &hooked{Store: mem, gate: make(chan struct{}, 1)}}
		defer r.end()
		test(r)
	})
}

// end drains the dispatcher and waits until every handler has returned, also
// those that ignore their context.
func (r *rig) end() {
	if r.d == nil {
		return
	}
	r.stop()
	select {
	case <-r.done:
	case <-time.After(10 * time.Minute):
		r.Error("the dispatcher does not stop")
		r.d.Kill()
	}
	time.Sleep(3 * time.Hour)
}

// hooked lets a test see and change what the dispatcher asks of the store.
type hooked struct {
	store.Store
	gate    chan struct{} // of capacity one: full while a claim is on its way
	mu      sync.Mutex
	claim   func(wants []store.Want, lease store.Lease) error
	extend  func(tokens []pawl.Token) ([]pawl.Token, error)
	settle  func(b store.Batch[store.Settlement]) error
	settled func(b store.Batch[store.Settlement]) // after it took effect
}

func (h *hooked) Unwrap() store.Store { return h.Store }

func (h *hooked) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

// stale makes the first settlement of a message come too late.
func (h *hooked) stale(id string) {
	var done atomic.Bool // settles overlap
	h.settle = func(b store.Batch[store.Settlement]) error {
		i := slices.IndexFunc(b.Items, func(s store.Settlement) bool { return s.ID == id })
		if i >= 0 && done.CompareAndSwap(false, true) {
			b.Items[i].Token.Fence++
		}
		return nil
	}
}

func (h *hooked) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	h.mu.Lock()
	hook := h.claim
	h.mu.Unlock()
	if hook != nil {
		if err := hook(wants, lease); err != nil {
			return nil, err
		}
	}
	h.gate <- struct{}{}
	defer func() { <-h.gate }()
	return h.Store.Claim(ctx, wants, lease)
}

func (h *hooked) Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
	h.mu.Lock()
	hook := h.extend
	h.mu.Unlock()
	if hook != nil {
		lost, err := hook(tokens)
		if err != nil || len(lost) == len(tokens) {
			return lost, err
		}
		// What it does not call lost is extended: a store that says so and does not do it
		// would have two leases of a message.
		kept := slices.DeleteFunc(slices.Clone(tokens), func(t pawl.Token) bool { return slices.Contains(lost, t) })
		more, err := h.Store.Extend(ctx, by, kept...)
		return append(slices.Clip(lost), more...), err
	}
	return h.Store.Extend(ctx, by, tokens...)
}

func (h *hooked) Settle(ctx context.Context, b store.Batch[store.Settlement]) ([]store.Refusal, error) {
	h.mu.Lock()
	before, after := h.settle, h.settled
	h.mu.Unlock()
	if before != nil {
		if err := before(b); err != nil {
			return nil, err
		}
	}
	refused, err := h.Store.Settle(ctx, b)
	if after != nil && err == nil {
		after(b)
	}
	return refused, err
}

// quiet is a logger for tests in which failures are the point.
var quiet = slog.New(slog.DiscardHandler)

// run starts a dispatcher; the end of the bubble drains it.
func (r *rig) run(c dispatch.Config) {
	r.Helper()
	r.d, r.stop, r.done = r.start(c)
}

func (r *rig) start(c dispatch.Config) (*dispatch.Dispatcher, context.CancelFunc, chan error) {
	r.Helper()
	if c.Logger == nil {
		c.Logger = quiet
	}
	if c.Policy == nil { // that of a program with a pipeline
		matrix, err := policy.NewMatrix(c.Rand, crawl.Rules()...)
		if err != nil {
			r.Fatal(err)
		}
		c.Policy = matrix
	}
	d, err := dispatch.New(r.store, c)
	if err != nil {
		r.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithValue(context.Background(), ctxKey{}, "of Run"))
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	return d, stop, done
}

type ctxKey struct{}

// one is the configuration of a single topic, "a".
func one(concurrency int, h pawl.HandlerFunc) dispatch.Config {
	return dispatch.Config{Topics: []dispatch.Topic{{Name: "a", Handler: h, Concurrency: concurrency}}}
}

// ended waits for Run to return.
func (r *rig) ended() error {
	r.Helper()
	select {
	case err := <-r.done:
		r.done <- err // for end
		return err
	case <-time.After(time.Hour):
		r.Fatal("Run does not return")
		return nil
	}
}

func (r *rig) append(msgs ...pawl.Message) {
	r.Helper()
	for chunk := range slices.Chunk(msgs, store.MaxBatch) {
		receipts, err := r.store.Append(context.Background(), store.NewBatch(chunk...))
		if err != nil {
			r.Fatal(err)
		}
		for _, rc := range receipts {
			if rc.Err != nil || rc.DuplicateOf != "" {
				r.Fatalf("%+v", rc)
			}
		}
	}
}

func (r *rig) get(id string) store.Record {
	r.Helper()
	rec, err := r.mem.Get(context.Background(), id)
	if err != nil {
		r.Fatalf("get %s: %v", id, err)
	}
	return rec
}

// gone makes sure that a message was acked.
func (r *rig) gone(id string) {
	r.Helper()
	if rec, err := r.mem.Get(context.Background(), id); err == nil {
		r.Fatalf("%s is %s: %s", id, rec.State, rec.Reason)
	}
}

func (r *rig) stats(topic string) store.TopicStats {
	r.Helper()
	all, err := r.mem.Stats(context.Background(), topic)
	if err != nil || len(all) != 1 {
		r.Fatal(err, all)
	}
	return all[0]
}

// diary is what handlers did, in order.
type diary struct {
	mu  sync.Mutex
	all []string
}

func (l *diary) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

func (l *diary) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

func numbered(topic string, n int) []pawl.Message {
	msgs := make([]pawl.Message, n)
	for i := range msgs {
		msgs[i] = pawl.Message{ID: fmt.Sprintf("%s-%d", topic, i), Topic: topic}
	}
	return msgs
}

func keyed(topic, key string, n int) []pawl.Message {
	msgs := make([]pawl.Message, n)
	for i := range msgs {
		msgs[i] = pawl.Message{ID: fmt.Sprintf("%s-%d", key, i), Topic: topic, Key: []byte(key)}
	}
	return msgs
}

// equal compares what happened with what should have.
func equal[T any](t testing.TB, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
		t.Fatalf("got  %s\nwant %s", g, w)
	}
}

var errBroken = errors.New("broken")

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func fromContext(ctx context.Context) *pawl.Delivery { return dispatch.FromContext(ctx) }

// logged is what was logged, as text.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// atLeast raises n to v, if it is less.
func atLeast(n *atomic.Int64, v int64) {
	for old := n.Load(); old < v && !n.CompareAndSwap(old, v); old = n.Load() {
	}
}

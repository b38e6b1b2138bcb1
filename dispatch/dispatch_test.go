package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is one dispatcher over a store in memory, in a bubble.
type rig struct {
	*testing.T
	store store.Store
	mem   *memory.Store
	d     *dispatch.Dispatcher
	stop  context.CancelFunc
	done  chan error
}

// newRig makes a rig with a store, and no dispatcher yet.
func newRig(t *testing.T) *rig {
	t.Helper()
	mem := memory.New(memory.Config{})
	return &rig{T: t, store: mem, mem: mem}
}

// quiet is a logger for tests in which failures are the point.
var quiet = slog.New(slog.DiscardHandler)

// run starts a dispatcher; the test's end drains it.
func (r *rig) run(c dispatch.Config) {
	r.Helper()
	if c.Logger == nil {
		c.Logger = quiet
	}
	d, err := dispatch.New(r.store, c)
	if err != nil {
		r.Fatal(err)
	}
	ctx, stop := context.WithCancel(r.Context())
	r.d, r.stop, r.done = d, stop, make(chan error, 1)
	go func() { r.done <- d.Run(ctx) }()
}

// drain stops the dispatcher and waits for its end.
func (r *rig) drain() error {
	r.stop()
	return <-r.done
}

func (r *rig) append(msgs ...pawl.Message) {
	r.Helper()
	receipts, err := r.store.Append(context.Background(), store.NewBatch(msgs...))
	if err != nil {
		r.Fatal(err)
	}
	for _, rc := range receipts {
		if rc.Err != nil || rc.DuplicateOf != "" {
			r.Fatalf("%+v", rc)
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

// log is what handlers saw, in order.
type log struct {
	mu  sync.Mutex
	all []string
}

func (l *log) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprintf(format, args...))
}

func (l *log) list() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.all...)
}

func numbered(topic string, n int) []pawl.Message {
	msgs := make([]pawl.Message, n)
	for i := range msgs {
		msgs[i] = pawl.Message{ID: fmt.Sprintf("%s-%d", topic, i), Topic: topic}
	}
	return msgs
}

func TestCarriesOutWhatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, seen := newRig(t), &log{}
		r.append(numbered("a", 500)...)
		r.run(dispatch.Config{Topics: []dispatch.Topic{{Name: "a", Handler: pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
			seen.add("%s", d.ID)
			return nil
		})}}, UntilEmpty: true})
		if err := <-r.done; err != nil {
			t.Fatal(err)
		}
		if n := len(seen.list()); n != 500 {
			t.Fatalf("%d of 500", n)
		}
		s := r.d.Snapshot()
		if s.Held != 0 || s.Bytes != 0 || s.Topics[0].Acked != 500 {
			t.Fatalf("%+v", s)
		}
		time.Sleep(time.Millisecond)
	})
}

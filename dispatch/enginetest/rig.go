package enginetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/storetest"
)

// Rig is one scenario's store, and what it needs to look at it.
type Rig struct {
	testing.TB
	in    *storetest.Instance
	store store.Store
	mu    sync.Mutex // of random
	rand  *rand.Rand

	clockMu sync.Mutex
	clock   time.Time // the store's clock, if the harness drives it; zero: it runs by itself
}

const (
	lease   = time.Second      // of leases that are to end, or to be kept
	calm    = 20 * time.Second // of leases that must not end, however busy the machine is
	patient = 60 * time.Second // how long anything is waited for
	deadMax = 4                // attempts
)

var errBroken = errors.New("broken")

func newRig(t *testing.T, in *storetest.Instance) *Rig {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := &Rig{TB: t, in: in, store: in.Store, rand: rand.New(rand.NewPCG(seed, 0))}
	r.keepTime()
	return r
}

// keepTime drives the clock of a store whose harness gave it a manual one.
func (r *Rig) keepTime() {
	if r.in.Advance == nil || r.clockRuns() {
		return
	}
	stop, done := make(chan struct{}), make(chan struct{})
	r.clock = time.Now()
	go func() {
		defer close(done)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case now := <-tick.C:
				r.advance(now.Sub(last))
				last = now
			case <-stop:
				return
			}
		}
	}()
	r.Cleanup(func() { close(stop); <-done })
}

func (r *Rig) advance(by time.Duration) {
	r.clockMu.Lock()
	defer r.clockMu.Unlock()
	r.in.Advance(by)
	r.clock = r.clock.Add(by)
}

// now is the time by the store's clock. Where we drive it, it lags behind on a busy
// machine, and catches up in leaps.
func (r *Rig) now() time.Time {
	r.clockMu.Lock()
	defer r.clockMu.Unlock()
	if r.clock.IsZero() {
		return time.Now()
	}
	return r.clock
}

// clockRuns reports whether the store's clock goes on by itself.
func (r *Rig) clockRuns() bool {
	first := r.storeTime()
	return !r.storeTime().Equal(first)
}

// storeTime is the store's clock, at least a few milliseconds after the last
// call.
func (r *Rig) storeTime() time.Time {
	time.Sleep(5 * time.Millisecond)
	r.append(pawl.Message{Topic: "clock"})
	ds, err := r.store.Claim(r.Context(), []store.Want{{Topic: "clock", Limit: 1}}, store.Lease{For: time.Minute})
	if err != nil || len(ds) != 1 {
		r.Fatalf("claim: %d deliveries, %v", len(ds), err)
	}
	done := store.Settlement{Token: ds[0].Token, ID: ds[0].ID, Verdict: store.Ack}
	if _, err := r.store.Settle(r.Context(), store.NewBatch(done)); err != nil {
		r.Fatal(err)
	}
	return ds[0].EnqueuedAt
}

// random returns a number from 0 to n-1.
func (r *Rig) random(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rand.IntN(n)
}

func (r *Rig) append(msgs ...pawl.Message) {
	r.Helper()
	for len(msgs) > 0 {
		n := min(len(msgs), 1000)
		receipts, err := r.store.Append(context.Background(), store.NewBatch(msgs[:n]...))
		if err != nil {
			r.Fatal(err)
		}
		for _, rc := range receipts {
			if rc.Err != nil || rc.DuplicateOf != "" {
				r.Fatalf("append: %+v", rc)
			}
		}
		msgs = msgs[n:]
	}
}

// engine is a dispatcher that runs.
type engine struct {
	*dispatch.Dispatcher
	stop context.CancelFunc
	done chan error
}

// topic is the configuration of one topic whose leases do not end.
func topic(name string, concurrency int, h pawl.HandlerFunc) dispatch.Topic {
	return dispatch.Topic{Name: name, Handler: h, Concurrency: concurrency, Lease: calm}
}

// mortal is a topic whose leases end soon after their process.
func mortal(name string, concurrency int, h pawl.HandlerFunc) dispatch.Topic {
	return dispatch.Topic{Name: name, Handler: h, Concurrency: concurrency, Lease: lease}
}

// quick is the policy of every scenario: little patience.
func quick(t testing.TB) policy.Policy {
	p, err := policy.NewMatrix(nil, policy.Rule{
		ID: "quick", MaxAttempts: deadMax, Backoff: policy.Backoff{Base: time.Millisecond, Max: 20 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// start runs a dispatcher of these topics on s until it is stopped, at the latest at the
// end of the scenario.
func (r *Rig) start(s store.Store, topics ...dispatch.Topic) *engine {
	r.Helper()
	return r.startWith(s, dispatch.Config{Topics: topics})
}

func (r *Rig) startWith(s store.Store, c dispatch.Config) *engine {
	r.Helper()
	if c.Policy == nil {
		c.Policy = quick(r)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	d, err := dispatch.New(s, c)
	if err != nil {
		r.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &engine{Dispatcher: d, stop: stop, done: make(chan error, 1)}
	go func() { e.done <- d.Run(ctx) }()
	r.Cleanup(func() { e.stop(); d.Kill() })
	return e
}

// end drains a dispatcher and returns what Run returned.
func (r *Rig) end(e *engine) error {
	r.Helper()
	e.stop()
	return r.ended(e)
}

// ended waits for Run to return by itself.
func (r *Rig) ended(e *engine) error {
	r.Helper()
	select {
	case err := <-e.done:
		return err
	case <-time.After(patient):
		r.Fatalf("Run does not return: %+v", e.Snapshot())
		return nil
	}
}

// finish runs a dispatcher until nothing is left.
func (r *Rig) finish(topics ...dispatch.Topic) {
	r.Helper()
	if err := r.ended(r.startWith(r.store, dispatch.Config{UntilEmpty: true, Topics: topics})); err != nil {
		r.Fatal(err)
	}
}

// until waits for something to come true.
func (r *Rig) until(what string, ok func() bool) {
	r.Helper()
	for end := time.Now().Add(patient); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("timed out waiting: %s; %+v", what, r.stats())
		}
	}
}

// stats returns the figures of every topic but the clock's.
func (r *Rig) stats() map[string]store.TopicStats {
	r.Helper()
	topics, ok := store.As[store.Topics](r.store)
	if !ok {
		r.Fatal("the store has no figures")
	}
	all, err := topics.Stats(context.Background())
	if err != nil {
		r.Fatal(err)
	}
	by := map[string]store.TopicStats{}
	for _, s := range all {
		if s.Name != "clock" {
			by[s.Name] = s
		}
	}
	return by
}

// dead returns the dead letters by id.
func (r *Rig) dead() map[string]store.Record {
	r.Helper()
	dl, ok := store.As[store.DeadLetters](r.store)
	if !ok {
		r.Fatal("the store has no dead letters")
	}
	by := map[string]store.Record{}
	for rec, err := range dl.Dead(context.Background(), store.DeadFilter{}) {
		if err != nil {
			r.Fatal(err)
		}
		by[rec.ID] = rec
	}
	return by
}

// balanced makes sure that nothing is lost, made twice, or left.
func (r *Rig) balanced(topic string, appended, dead int64) store.TopicStats {
	r.Helper()
	s := r.stats()[topic]
	if s.Appended != appended || s.Dead != dead || s.Acked != appended-dead || s.Waiting+s.Delayed+s.Leased != 0 {
		r.Fatalf("%s: want %d appended and %d dead, have %+v", topic, appended, dead, s)
	}
	return s
}

func numbered(topic string, n int) []pawl.Message {
	msgs := make([]pawl.Message, n)
	for i := range msgs {
		msgs[i] = pawl.Message{ID: fmt.Sprintf("%s-%d", topic, i), Topic: topic}
	}
	return msgs
}

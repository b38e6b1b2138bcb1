package enginetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/storetest"
)

// Rig is one scenario's store, and what it needs to look at it.
type Rig struct {
	*storetest.T
	mu   sync.Mutex // of random
	rand *rand.Rand

	clockMu sync.Mutex
	clock   time.Time // the store's clock, if the harness drives it; zero: it runs by itself
}

const (
	mortal  = time.Second      // of leases that end soon after their process, or are to be kept
	calm    = 20 * time.Second // of leases that must not end, however busy the machine is
	patient = 60 * time.Second // how long anything is waited for
	deadMax = 4                // attempts
)

var errBroken = errors.New("broken")

func newRig(t *storetest.T) *Rig {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := &Rig{T: t, rand: rand.New(rand.NewPCG(seed, 0))}
	r.keepTime()
	return r
}

// keepTime drives the clock of a store whose harness gave it a manual one.
func (r *Rig) keepTime() {
	if r.Advance == nil || r.clockRuns() {
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
	r.Advance(by)
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
	ds, err := r.Store.Claim(r.Context(), []store.Want{{Topic: "clock", Limit: 1}}, store.Lease{For: time.Minute})
	if err != nil || len(ds) != 1 {
		r.Fatalf("claim: %d deliveries, %v", len(ds), err)
	}
	done := store.Settlement{Token: ds[0].Token, ID: ds[0].ID, Verdict: store.Ack}
	_, err = r.Store.Settle(r.Context(), store.NewBatch(done))
	r.must(err)
	return ds[0].EnqueuedAt
}

// random returns a number from 0 to n-1.
func (r *Rig) random(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rand.IntN(n)
}

func (r *Rig) append(msgs ...pawl.Message) {
	for len(msgs) > 0 {
		n := min(len(msgs), 1000)
		r.must(store.Send(context.Background(), r.Store, msgs[:n]...))
		msgs = msgs[n:]
	}
}

// engine is a dispatcher that runs.
type engine struct {
	*dispatch.Dispatcher
	stop context.CancelFunc
	done chan error
}

// topic is the configuration of one topic with leases of that length.
func topic(name string, lease time.Duration, concurrency int, h pawl.HandlerFunc) dispatch.Topic {
	return dispatch.Topic{Name: name, Handler: h, Concurrency: concurrency, Lease: lease}
}

// quick is the policy of every scenario: little patience.
var quick = policy.Rule{
	ID: "quick", MaxAttempts: deadMax, Backoff: policy.Backoff{Base: time.Millisecond, Max: 20 * time.Millisecond},
}

// start runs a dispatcher of these topics on s until it is stopped, at the latest at the
// end of the scenario.
func (r *Rig) start(s store.Store, topics ...dispatch.Topic) *engine {
	return r.startWith(s, dispatch.Config{Topics: topics})
}

func (r *Rig) startWith(s store.Store, c dispatch.Config) *engine {
	if c.Policy == nil {
		p, err := policy.NewMatrix(nil, quick)
		r.must(err)
		c.Policy = p
	}
	c.Logger = slog.New(slog.DiscardHandler)
	d, err := dispatch.New(s, c)
	r.must(err)
	ctx, stop := context.WithCancel(context.Background())
	e := &engine{Dispatcher: d, stop: stop, done: make(chan error, 1)}
	go func() { e.done <- d.Run(ctx) }()
	r.Cleanup(func() { e.stop(); d.Kill() })
	return e
}

// end drains a dispatcher.
func (r *Rig) end(e *engine) {
	e.stop()
	r.must(r.ended(e))
}

// dies waits for the end of a dispatcher that was killed.
func (r *Rig) dies(e *engine) {
	if err := r.ended(e); !errors.Is(err, dispatch.ErrKilled) {
		r.Fatalf("%v", err)
	}
}

// ended waits for Run to return by itself, and returns its error.
func (r *Rig) ended(e *engine) error {
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
	r.must(r.ended(r.startWith(r.Store, dispatch.Config{UntilEmpty: true, Topics: topics})))
}

// until waits for something to come true.
func (r *Rig) until(what string, ok func() bool) {
	for end := time.Now().Add(patient); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("timed out waiting: %s; %+v", what, r.stats())
		}
	}
}

// stats returns the figures of every topic but the clock's.
func (r *Rig) stats() map[string]store.TopicStats {
	topics, _ := store.As[store.Topics](r.Store) // all scenarios need it
	all, err := topics.Stats(context.Background())
	r.must(err)
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
	dl, _ := store.As[store.DeadLetters](r.Store) // who asks needs it
	by := map[string]store.Record{}
	for rec, err := range dl.Dead(context.Background(), store.DeadFilter{}) {
		r.must(err)
		by[rec.ID] = rec
	}
	return by
}

// must stops the scenario over an error.
func (r *Rig) must(err error) {
	if err != nil {
		r.Fatalf("%v", err)
	}
}

// check fails the scenario, which goes on, unless something is so. It may be called from handlers.
func (r *Rig) check(so bool, format string, args ...any) {
	if !so {
		r.Errorf(format, args...)
	}
}

// balanced makes sure that nothing is lost, made twice, or left.
func (r *Rig) balanced(topic string, appended, dead int64) store.TopicStats {
	s := r.stats()[topic]
	if s.Appended != appended || s.Dead != dead || s.Acked != appended-dead || s.Waiting+s.Delayed+s.Leased != 0 {
		r.Fatalf("%s: want %d appended and %d dead, have %+v", topic, appended, dead, s)
	}
	return s
}

// unrescued is balanced, with no rescue on the way and no dead letter.
func (r *Rig) unrescued(topic string, appended int64) {
	s := r.balanced(topic, appended, 0)
	r.check(s.Rescues == 0, "%d rescues", s.Rescues)
}

// counts count what was carried out, by id.
type counts struct {
	mu sync.Mutex
	of map[string]int
}

// add counts one, and returns how many there are of all ids.
func (c *counts) add(id string) (all int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string]int{}
	}
	c.of[id]++
	for _, n := range c.of {
		all += n
	}
	return all
}

func numbered(topic string, n int) []pawl.Message {
	msgs := make([]pawl.Message, n)
	for i := range msgs {
		msgs[i] = pawl.Message{ID: fmt.Sprintf("%s-%d", topic, i), Topic: topic}
	}
	return msgs
}

package dispatch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// chaos is a random life: handlers that are quick, slow, stuck, panic, fail and
// release; a store that is away, forgets leases and answers late; dispatchers
// that are killed and drained.
type chaos struct {
	mu   sync.Mutex
	rand *rand.Rand
	busy map[string]string // by lane: the message being carried out
	bad  []string
}

func (c *chaos) n(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.IntN(n)
}

// enter checks that nothing of a lane is carried out twice at once here.
func (c *chaos) enter(d *pawl.Delivery) (leave func()) {
	if d.Key == nil {
		return func() {}
	}
	key := string(d.Key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.busy[key]; other != "" {
		c.bad = append(c.bad, fmt.Sprintf("lane %s: %s beside %s", key, d.ID, other))
	}
	c.busy[key] = d.ID
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.busy, key)
	}
}

func (c *chaos) handle(ctx context.Context, d *pawl.Delivery) error {
	defer c.enter(d)()
	switch c.n(40) {
	case 0:
		time.Sleep(time.Duration(c.n(60)) * time.Second) // may outlive lease and deadline
	case 1, 2:
		select {
		case <-time.After(time.Duration(c.n(30)) * time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case 3:
		panic("chaos")
	case 4:
		return pawl.Release(time.Duration(c.n(3))*time.Second, "chaos")
	case 5:
		return pawl.Throttled(errBroken, time.Duration(c.n(5))*time.Second)
	case 6, 7:
		return errBroken
	case 8:
		return pawl.Permanent(errBroken)
	case 9:
		d.Hold(time.Duration(c.n(2)) * time.Second)
	case 10:
		d.Emit(pawl.Message{Topic: "out"})
	case 11, 12, 13, 14:
		time.Sleep(time.Duration(c.n(50)) * time.Millisecond)
	}
	return nil
}

func (c *chaos) batch(ctx context.Context, ds []*pawl.Delivery) []error {
	errs := make([]error, c.n(len(ds)+1)) // sometimes short
	for i := range errs {
		if c.n(10) == 0 {
			errs[i] = errBroken
		}
	}
	if c.n(10) == 0 {
		time.Sleep(time.Duration(c.n(20)) * time.Second)
	}
	return errs
}

func (c *chaos) config() dispatch.Config {
	return dispatch.Config{
		Topics: []dispatch.Topic{
			{Name: "a", Handler: pawl.HandlerFunc(c.handle), Concurrency: 1 + c.n(8), Lease: 10 * time.Second},
			{Name: "b", Batch: pawl.BatchHandlerFunc(c.batch), Concurrency: 1 + c.n(3), BatchSize: 1 + c.n(20),
				Lease: 15 * time.Second},
		},
		MaxBytes: 20_000, DrainTimeout: time.Duration(1+c.n(20)) * time.Second, MaxZombies: 2,
	}
}

// breakStore lets a part of the calls fail, before or after they took effect.
func (c *chaos) breakStore(r *rig) {
	fail := func(percent int) error {
		if c.n(100) < percent {
			return errGone
		}
		return nil
	}
	r.store.set(func() {
		r.store.claim = func([]store.Want, store.Lease) error { return fail(10) }
		r.store.extend = func(tokens []pawl.Token) ([]pawl.Token, error) {
			if c.n(10) == 0 {
				return tokens[:1], nil
			}
			return nil, fail(30)
		}
		r.store.settle = func(b store.Batch[store.Settlement]) error {
			time.Sleep(time.Duration(c.n(20)) * time.Millisecond)
			if c.n(10) == 0 {
				_, _ = r.mem.Settle(context.Background(), b)
			}
			return fail(15)
		}
	})
}

func (r *rig) mendStore() {
	r.store.set(func() { r.store.claim, r.store.extend, r.store.settle = nil, nil, nil })
}

func TestChaos(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 5
	}
	first := uint64(time.Now().UnixNano())
	for i := range seeds {
		seed := first + uint64(i)
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { bubble(t, func(r *rig) { live(r, seed) }) }) {
			t.Fatalf("seed %d", seed)
		}
	}
}

func live(r *rig, seed uint64) {
	c := &chaos{rand: rand.New(rand.NewPCG(seed, 0)), busy: map[string]string{}}
	for _, topic := range []string{"a", "b"} {
		_, err := r.mem.Declare(context.Background(), store.Declaration{Name: topic, Deadline: 40 * time.Second,
			Tail: new(c.n(2) == 0)})
		equal(r, err, nil)
		for i := range 300 {
			m := pawl.Message{Topic: topic, ID: fmt.Sprintf("%s%d", topic, i), Body: make([]byte, c.n(500)),
				Priority: c.n(3) * 50}
			if c.n(2) == 0 {
				m.Key = fmt.Appendf(nil, "%s%d", topic, c.n(10))
			}
			r.append(m)
		}
	}
	c.breakStore(r)
	for range 3 {
		d, stop, done := r.start(c.config())
		time.Sleep(time.Duration(1+c.n(60)) * time.Second)
		if c.n(2) == 0 {
			d.Kill()
		}
		stop()
		<-done
		time.Sleep(3 * time.Minute) // until every handler has returned, and every lease has ended
	}
	r.mendStore()
	config := c.config()
	config.UntilEmpty, config.MaxZombies = true, 1000
	r.run(config)
	equal(r, r.ended(), nil)
	s := r.d.Snapshot()
	equal(r, []int{s.Held, s.Unsettled, s.Bytes}, []int{0, 0, 0})
	for _, t := range s.Topics {
		equal(r, []int{t.Running, t.Waiting, t.Zombies}, []int{0, 0, 0})
		st := r.stats(t.Name)
		equal(r, st.Acked+st.Dead, int64(300))
		r.Logf("%s: acked %d, dead %d, retried %d, rescues %d", t.Name, st.Acked, st.Dead, st.Retried, st.Rescues)
	}
	for _, b := range c.bad {
		r.Error(b)
	}
}

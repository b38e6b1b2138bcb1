package dispatch_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// paced is a limit by the key of a message that processes share.
func paced(t *testing.T, p store.Shared, rate float64) *dispatch.Limiter {
	t.Helper()
	return limiter(t, dispatch.LimitConfig{Rate: rate, Burst: 1, Shared: p, By: byHost})
}

// byHost tells messages apart by the first byte of their body, which is no lane.
func byHost(d *pawl.Delivery) string { return string(d.Body[:1]) }

func hosts(topic string, n int, names ...string) (all []pawl.Message) {
	for range n {
		for _, name := range names {
			all = append(all, pawl.Message{Topic: topic, Body: []byte(name)})
		}
	}
	return all
}

// TestPacedRate: dispatchers over one store keep the rate of each key together, and
// use it up.
func TestPacedRate(t *testing.T) {
	for _, rate := range []float64{0.5, 5, 40} {
		bubble(t, func(r *rig) {
			var c crowd
			r.append(hosts("a", int(30*rate)+5, "x", "y", "z")...)
			for range 3 {
				_, stop, done := r.start(limited(16, func(_ context.Context, d *pawl.Delivery) error {
					c.enter(byHost(d))()
					return nil
				}, paced(t, r.mem, rate)))
				defer func() {
					stop()
					<-done
				}()
			}
			time.Sleep(20 * time.Second)
			for _, host := range []string{"x", "y", "z"} {
				if n, could := c.count(host), int(20*rate); n < could*7/10 || n > could+int(rate/5)+3 {
					t.Errorf("%d of %d of host %s in 20 s", n, could, host)
				}
			}
		})
	}
}

// TestRetryAfterIsForAll: what one process is told, all others heed, and only for that
// key. What waits for it does so in the store, and no attempt is counted.
func TestRetryAfterIsForAll(t *testing.T) {
	bubble(t, func(r *rig) {
		var c crowd
		start := func(l *dispatch.Limiter) (end func()) {
			_, stop, done := r.start(limited(4, func(_ context.Context, d *pawl.Delivery) error {
				c.enter(byHost(d))()
				if byHost(d) == "x" && c.count("x") == 1 {
					return pawl.Throttled(errBroken, 5*time.Minute)
				}
				return nil
			}, l))
			return func() { stop(); <-done }
		}
		defer start(paced(t, r.mem, 10))()
		r.append(hosts("a", 1, "x")...)
		time.Sleep(time.Second)
		equal(r, c.count("x"), 1)
		second := paced(t, r.mem, 10)
		defer start(second)()
		r.append(hosts("a", 20, "x", "y")...)
		time.Sleep(4 * time.Minute)
		equal(r, c.count("x"), 1)
		equal(r, c.count("y"), 20)
		time.Sleep(3 * time.Minute)
		equal(r, c.count("x"), 22)
		equal(r, second.Hold("y", time.Hour), nil)
		time.Sleep(time.Second)
		r.append(hosts("a", 1, "y")...)
		time.Sleep(50 * time.Minute)
		equal(r, c.count("y"), 20)
		time.Sleep(20 * time.Minute)
		equal(r, c.count("y"), 21)
	})
}

// awayPacer is a pacer whose store is away for a while.
type awayPacer struct {
	store.Shared
	until time.Time
}

func (p *awayPacer) Reserve(ctx context.Context, paces ...store.Pace) ([]store.Paced, error) {
	if time.Now().Before(p.until) {
		return nil, &store.Error{Op: "reserve", Code: store.ErrUnavailable}
	}
	return p.Shared.Reserve(ctx, paces...)
}

// TestPacedRateWithoutItsStore: nothing begins while nobody can say that it may, and
// then it goes on.
func TestPacedRateWithoutItsStore(t *testing.T) {
	bubble(t, func(r *rig) {
		var c crowd
		r.append(hosts("a", 20, "x", "y")...)
		r.run(limited(4, func(_ context.Context, d *pawl.Delivery) error { c.enter(byHost(d))(); return nil },
			paced(t, &awayPacer{Shared: r.mem, until: time.Now().Add(10 * time.Second)}, 10)))
		time.Sleep(9 * time.Second)
		equal(t, c.count("x")+c.count("y"), 0)
		time.Sleep(time.Minute)
		equal(t, c.count("x")+c.count("y"), 40)
	})
}

// TestAcquirePaced: calls that handlers make share the rate, too, with keys of any
// length.
func TestAcquirePaced(t *testing.T) {
	bubble(t, func(r *rig) {
		long := strings.Repeat("k", 5000)
		for _, l := range []*dispatch.Limiter{paced(t, r.mem, 1), paced(t, r.mem, 1)} {
			began := time.Now()
			for range 3 {
				done, err := l.Acquire(context.Background(), long)
				equal(t, err, nil)
				done(nil)
			}
			if took := time.Since(began); took < 1900*time.Millisecond || took > 4*time.Second {
				t.Errorf("three calls took %v", took)
			}
		}
	})
}

func TestPacedConfig(t *testing.T) {
	bubble(t, func(r *rig) {
		for _, wrong := range []dispatch.LimitConfig{
			{Shared: r.mem}, {Shared: r.mem, By: byHost},
			{Rate: 1e-9, Shared: r.mem, By: byHost},
		} {
			wrong.Name = "l"
			if _, err := dispatch.NewLimiter(wrong); err == nil {
				t.Errorf("%+v was taken", wrong)
			}
		}
		l := paced(t, r.mem, 1)
		equal(t, l.Set(2, 1, 0), nil)
		equal(t, l.Snapshot().Rate, 2.0)
		equal(t, l.Snapshot().Shared, true)
		if l.Set(0, 0, 0) == nil || l.Hold("k", 0) == nil ||
			limiter(t, dispatch.LimitConfig{Rate: 1}).Hold("k", time.Second) == nil {
			t.Error("what makes no sense was taken")
		}
	})
}

// TestPacedRateOverSteps: what waited for its turn comes back at once when the store's clock is set
// forward. The rate is used up all the same.
func TestPacedRateOverSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var step atomic.Int64
		mem := memory.New(memory.Config{Now: func() time.Time { return time.Now().Add(time.Duration(step.Load())) }})
		r := &rig{T: t, mem: mem, store: &hooked{Store: mem, gate: make(chan struct{}, 1)}}
		defer r.end()
		var c crowd
		r.append(hosts("a", 400, "x", "y")...)
		r.run(limited(16, func(_ context.Context, d *pawl.Delivery) error { c.enter(byHost(d))(); return nil },
			paced(t, mem, 2)))
		for _, by := range []time.Duration{0, time.Hour, 30 * time.Second} {
			step.Add(int64(by))
			time.Sleep(2 * time.Second)
			for _, host := range []string{"x", "y"} {
				began := c.count(host)
				time.Sleep(4 * time.Second)
				if n := c.count(host) - began; n < 6 {
					t.Errorf("a step of %v: %d of 8 calls in 4 s of host %s", by, n, host)
				}
			}
			time.Sleep(time.Minute)
		}
	})
}

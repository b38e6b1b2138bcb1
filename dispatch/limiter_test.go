package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

func limiter(t testing.TB, c dispatch.LimitConfig) *dispatch.Limiter {
	t.Helper()
	if c.Name == "" {
		c.Name = "downstream"
	}
	l, err := dispatch.NewLimiter(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// limited is a topic "a" behind limiters.
func limited(concurrency int, h pawl.HandlerFunc, ls ...*dispatch.Limiter) dispatch.Config {
	c := one(concurrency, h)
	c.Topics[0].Limits = ls
	return c
}

// crowd counts how many are inside at once.
type crowd struct {
	mu     sync.Mutex
	inside map[string]int
	most   map[string]int
	began  map[string][]time.Time
}

func (c *crowd) enter(key string) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inside == nil {
		c.inside, c.most, c.began = map[string]int{}, map[string]int{}, map[string][]time.Time{}
	}
	c.inside[key]++
	c.most[key] = max(c.most[key], c.inside[key])
	c.began[key] = append(c.began[key], time.Now())
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.inside[key]--
	}
}

// peak returns how many were inside at once.
func (c *crowd) peak(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most[key]
}

// count returns how many began.
func (c *crowd) count(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.began[key])
}

func byKey(d *pawl.Delivery) string { return string(d.Key) }

func byTenant(d *pawl.Delivery) string { return d.Headers["tenant"] }

// tenants are messages of a tenant; by its key, where the topic is in order.
func tenants(order store.Order, name string, n int) []pawl.Message {
	msgs := numbered("a", n)
	if order == store.OrderKey {
		msgs = keyed("a", name, n)
	}
	for i := range msgs {
		msgs[i].ID, msgs[i].Headers = fmt.Sprint(name, "-", i), map[string]string{"tenant": name}
	}
	return msgs
}

func TestRateLimitOfATopic(t *testing.T) {
	for _, rate := range []float64{0.5, 20, 300} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			bubble(t, func(r *rig) {
				var c crowd
				n := int(20 * rate)
				r.append(numbered("a", n+100)...)
				r.run(limited(50, func(context.Context, *pawl.Delivery) error {
					c.enter("")()
					return nil
				}, limiter(t, dispatch.LimitConfig{Rate: rate})))
				time.Sleep(20 * time.Second)
				if got := c.count(""); float64(got) < 0.97*float64(n)-1 || got > n+int(rate/10)+1 {
					t.Errorf("%d in 20 s, want %d", got, n)
				}
				if s := r.stats("a"); rate < 100 && s.Leased > int64(rate)+10 {
					t.Errorf("%d are leased: others could have them", s.Leased)
				}
				equal(t, r.d.Snapshot().Topics[0].LimitedBy, "downstream")
			})
		})
	}
}

func TestConcurrencyLimitOfTwoTopics(t *testing.T) {
	bubble(t, func(r *rig) {
		var c crowd
		h := pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error {
			defer c.enter("")()
			time.Sleep(10 * time.Millisecond)
			return nil
		})
		l := limiter(t, dispatch.LimitConfig{Concurrency: 3})
		r.append(numbered("a", 150)...)
		r.append(numbered("b", 150)...)
		began := time.Now()
		r.run(dispatch.Config{UntilEmpty: true, Topics: []dispatch.Topic{
			{Name: "a", Handler: h, Limits: []*dispatch.Limiter{l}},
			{Name: "b", Handler: h, Limits: []*dispatch.Limiter{l}},
		}})
		if err := r.ended(); err != nil {
			r.Fatal(err)
		}
		if c.peak("") != 3 {
			t.Errorf("%d at once", c.peak(""))
		}
		if took := time.Since(began); took > 1300*time.Millisecond {
			t.Errorf("300 of 10 ms, 3 at once, took %v", took)
		}
	})
}

// TestLimitPerKeyLeavesOthersAlone: a key at its limit takes no slot and no room
// from the others.
func TestLimitPerKeyLeavesOthersAlone(t *testing.T) {
	for name, l := range map[string]dispatch.LimitConfig{
		"rate":        {Rate: 5, By: byTenant},
		"concurrency": {Concurrency: 2, By: byTenant},
	} {
		for _, order := range []store.Order{store.OrderNone, store.OrderKey} {
			t.Run(name+" "+string(order), func(t *testing.T) {
				bubble(t, func(r *rig) {
					var c crowd
					cfg := limited(8, func(_ context.Context, d *pawl.Delivery) error {
						defer c.enter(byTenant(d))()
						time.Sleep(5 * time.Millisecond)
						if byTenant(d) == "hot" {
							time.Sleep(300 * time.Millisecond)
						}
						return nil
					}, limiter(t, l))
					cfg.Topics[0].Settings.Order = order
					r.run(cfg)
					time.Sleep(time.Millisecond)
					r.append(tenants(order, "hot", 3000)...)
					for i := range 300 {
						r.append(tenants(order, fmt.Sprint(i), 1)...)
					}
					time.Sleep(20 * time.Second)
					others := 0
					for i := range 300 {
						others += c.count(fmt.Sprint(i))
					}
					if others != 300 {
						t.Errorf("%d of 300 others began", others)
					}
					hot, could := c.count("hot"), 100
					if name == "concurrency" {
						could = 2 * int(20*time.Second/(305*time.Millisecond))
					}
					if order == store.OrderKey {
						could = min(could, int(20*time.Second/(305*time.Millisecond)))
					}
					if c.peak("hot") > 2 || hot < could*85/100 || hot > could+2 {
						t.Errorf("hot: %d of %d began, %d at once", hot, could, c.peak("hot"))
					}
				})
			})
		}
	}
}

// TestWhatIsSentAwaySaysWhy, and counts no attempt.
func TestWhatIsSentAwaySaysWhy(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(keyed("a", "k", 3)...)
		l := limiter(t, dispatch.LimitConfig{Name: "mailhost", Rate: 0.01, By: byKey})
		r.run(limited(8, func(context.Context, *pawl.Delivery) error { return nil }, l))
		time.Sleep(2 * time.Second)
		r.gone("k-0")
		rec := r.get("k-1")
		if !strings.Contains(rec.Reason, "limited by mailhost") || rec.Attempts != 0 || rec.State != store.Delayed {
			t.Errorf("it is %s after %d attempts: %q", rec.State, rec.Attempts, rec.Reason)
		}
		if s := l.Snapshot(); s.HeldBack == 0 || s.Limited.IsZero() || s.Running != 0 {
			t.Errorf("%+v", s)
		}
		time.Sleep(10 * time.Minute)
		r.gone("k-1")
		r.gone("k-2")
	})
}

// TestRetryAfterClosesTheKey: the other side says when to come back, and is not
// asked before, for any message of that key.
func TestRetryAfterClosesTheKey(t *testing.T) {
	bubble(t, func(r *rig) {
		var c crowd
		refuse := true
		r.append(keyed("a", "k", 5)...)
		r.append(keyed("a", "other", 1)...)
		cfg := limited(1, func(_ context.Context, d *pawl.Delivery) error {
			c.enter(string(d.Key))()
			if string(d.Key) == "k" && refuse {
				refuse = false
				return pawl.Throttled(errors.New("too many requests"), 30*time.Second)
			}
			return nil
		}, limiter(t, dispatch.LimitConfig{Concurrency: 8, By: byKey}))
		r.run(cfg)
		time.Sleep(29 * time.Second)
		if n := c.count("k"); n != 1 {
			r.Fatalf("asked %d times before the time it stated", n)
		}
		equal(t, c.count("other"), 1)
		time.Sleep(31 * time.Second)
		equal(t, c.count("k"), 6)
	})
}

// TestAdaptiveLimit finds out what a downstream takes that says no more than no.
func TestAdaptiveLimit(t *testing.T) {
	bubble(t, func(r *rig) {
		var mu sync.Mutex
		inside, most, served, refused := 0, 20, 0, 0
		h := func(context.Context, *pawl.Delivery) error {
			mu.Lock()
			if inside >= most {
				refused++
				mu.Unlock()
				return pawl.Throttled(errors.New("503"), 0)
			}
			inside++
			mu.Unlock()
			time.Sleep(200 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			inside--
			served++
			return nil
		}
		r.append(numbered("a", 35_000)...)
		r.run(limited(100, h, limiter(t, dispatch.LimitConfig{Adaptive: 100})))
		for _, limit := range []int{20, 60, 10} {
			mu.Lock()
			most = limit
			mu.Unlock()
			time.Sleep(30 * time.Second)
			mu.Lock()
			served, refused = 0, 0
			mu.Unlock()
			time.Sleep(20 * time.Second)
			mu.Lock()
			good, share := float64(served)/float64(limit*20*5), float64(refused)/float64(served+refused)
			mu.Unlock()
			if good < 0.9 || share > 0.05 {
				t.Errorf("limit %d: goodput %.1f %%, refused %.1f %%", limit, 100*good, 100*share)
			}
		}
	})
}

// TestLimitedDrainsAtOnce: what waits for its limit is given back.
func TestLimitedDrainsAtOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(keyed("a", "k", 50)...)
		r.run(limited(8, func(context.Context, *pawl.Delivery) error { return nil },
			limiter(t, dispatch.LimitConfig{Rate: 8, By: byKey})))
		time.Sleep(300 * time.Millisecond)
		began := time.Now()
		r.stop()
		if err := r.ended(); err != nil {
			r.Fatal(err)
		}
		if took := time.Since(began); took > time.Second || r.stats("a").Leased != 0 {
			t.Errorf("after %v, %+v", took, r.stats("a"))
		}
	})
}

func TestBatchIsOneCallOfALimit(t *testing.T) {
	bubble(t, func(r *rig) {
		var c crowd
		r.append(numbered("a", 1000)...)
		r.run(dispatch.Config{Topics: []dispatch.Topic{{
			Name: "a", BatchSize: 10, Limits: []*dispatch.Limiter{limiter(t, dispatch.LimitConfig{Rate: 5, Burst: 1})},
			Batch: pawl.BatchHandlerFunc(func(_ context.Context, ds []*pawl.Delivery) []error {
				c.enter("")()
				return make([]error, len(ds))
			}),
		}}})
		time.Sleep(10 * time.Second)
		if n := c.count(""); n < 49 || n > 51 {
			t.Errorf("%d batches in 10 s at 5/s", n)
		}
	})
}

func TestLimiterSetTakesEffect(t *testing.T) {
	bubble(t, func(r *rig) {
		var c crowd
		l := limiter(t, dispatch.LimitConfig{Rate: 1})
		r.append(numbered("a", 5000)...)
		r.run(limited(8, func(context.Context, *pawl.Delivery) error { c.enter("")(); return nil }, l))
		time.Sleep(10 * time.Second)
		if err := l.Set(100, 0, 0); err != nil {
			r.Fatal(err)
		}
		before := c.count("")
		time.Sleep(10 * time.Second)
		if n := c.count("") - before; n < 900 || n > 1011 {
			t.Errorf("%d in 10 s at 100/s", n)
		}
		if l.Check(-1, 0, 0) == nil || l.Set(-1, 0, 0) == nil {
			t.Error("a negative rate")
		}
		if err := l.Check(7, 0, 0); err != nil || l.Snapshot().Rate != 100 {
			t.Errorf("it was only to be checked: %v, %v/s", err, l.Snapshot().Rate)
		}
	})
}

func TestLimitsThatMakeNoSense(t *testing.T) {
	for _, c := range []dispatch.LimitConfig{
		{Rate: 1}, {Name: "a", Rate: -1}, {Name: "a", Burst: 3}, {Name: "a", Concurrency: -1},
		{Name: "a", Adaptive: -1},
		{Name: "a", Adaptive: 1, Size: func() float64 { return 1 }},
	} {
		if _, err := dispatch.NewLimiter(c); err == nil {
			t.Errorf("%+v", c)
		}
	}
	_, err := dispatch.NewLimiter(dispatch.LimitConfig{
		Burst: 3, Concurrency: -1, Adaptive: -1, AIMD: &dispatch.AIMD{Start: -1, Factor: 2}, By: byKey,
		Shared: memory.New(memory.Config{}),
	})
	for _, want := range []string{
		"needs a name", "a burst needs a rate", "concurrency -1", "adaptive up to -1", "AIMD starts at -1", "AIMD cuts to 2",
		"shared by all processes, but there is no rate",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	keyed := limiter(t, dispatch.LimitConfig{Rate: 1, By: byKey})
	batch := pawl.BatchHandlerFunc(func(context.Context, []*pawl.Delivery) []error { return nil })
	if _, err := dispatch.New(nil, dispatch.Config{Topics: []dispatch.Topic{{Name: "a", Batch: batch,
		Limits: []*dispatch.Limiter{keyed}}}}); err == nil ||
		!strings.Contains(err.Error(), "a batch is one call") {
		t.Error(err)
	}
}

// TestSharedRate: dispatchers over one store keep a rate together, and use it up.
func TestSharedRate(t *testing.T) {
	for _, rate := range []float64{2, 50, 300, -50} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			bubble(t, func(r *rig) {
				var c crowd
				var shared store.Shared = r.mem
				if rate < 0 { // by entries alone
					rate, shared = -rate, &entries{Shared: r.mem}
				}
				r.append(numbered("a", int(30*rate))...)
				cfg := limited(16, func(context.Context, *pawl.Delivery) error { c.enter("")(); return nil })
				for range 3 {
					cfg.Topics = []dispatch.Topic{cfg.Topics[0]}
					cfg.Topics[0].Limits = []*dispatch.Limiter{limiter(t,
						dispatch.LimitConfig{Rate: rate, Shared: shared})}
					_, stop, done := r.start(cfg)
					defer func() {
						stop()
						<-done
					}()
				}
				time.Sleep(20 * time.Second)
				if n, could := c.count(""), int(20*rate); n < could*9/10 || n > could+int(rate/5)+3 {
					t.Errorf("%d of %d in 20 s", n, could)
				}
			})
		})
	}
}

// TestSharedRateWithoutItsStore: nothing begins while nobody can say that it may,
// and then it goes on.
func TestSharedRateWithoutItsStore(t *testing.T) {
	bubble(t, func(r *rig) {
		var c crowd
		e := &entries{Shared: r.mem, down: true}
		r.append(numbered("a", 100)...)
		r.run(limited(4, func(context.Context, *pawl.Delivery) error { c.enter("")(); return nil },
			limiter(t, dispatch.LimitConfig{Rate: 10, Shared: e})))
		time.Sleep(10 * time.Second)
		equal(t, c.count(""), 0)
		e.set(false)
		time.Sleep(12 * time.Second)
		equal(t, c.count(""), 100)
	})
}

// TestSharedRateWhenTheClockIsSetBack: the permits of an hour that was taken back do not bar those of now.
func TestSharedRateWhenTheClockIsSetBack(t *testing.T) {
	bubble(t, func(r *rig) {
		var c crowd
		e := &entries{Shared: r.mem}
		r.append(numbered("a", 300)...)
		r.run(limited(4, func(context.Context, *pawl.Delivery) error { c.enter("")(); return nil },
			limiter(t, dispatch.LimitConfig{Rate: 10, Shared: e})))
		time.Sleep(5 * time.Second)
		before := c.count("")
		e.setBack(time.Hour)
		time.Sleep(10 * time.Second)
		if n := c.count("") - before; n < 90 || n > 110 {
			t.Errorf("%d of 100 in 10 s after the step", n)
		}
	})
}

// entries is the state of a store that has no paces, may be down, and whose clock may be set back.
type entries struct {
	store.Shared
	mu   sync.Mutex
	down bool
	back time.Duration
}

func (e *entries) setBack(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.back = d
}

func (e *entries) Clock(ctx context.Context) (time.Time, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now, err := e.Shared.Clock(ctx)
	return now.Add(-e.back), err
}

func (e *entries) set(down bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.down = down
}

func (e *entries) Reserve(context.Context, ...store.Pace) ([]store.Paced, error) {
	return nil, &store.Error{Op: "reserve", Code: store.ErrUnsupported}
}

func (e *entries) GetState(ctx context.Context, key string) (store.Entry, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.down {
		return store.Entry{}, &store.Error{Op: "get state", Code: store.ErrUnavailable}
	}
	return e.Shared.GetState(ctx, key)
}

// TestLimitedHoldsLittle: what a rate lets begin much later is left in the store,
// where others can have it, also when wake-ups make the dispatcher look for something
// better.
func TestLimitedHoldsLittle(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(numbered("a", 20)...)
		r.run(limited(8, func(context.Context, *pawl.Delivery) error { return nil },
			limiter(t, dispatch.LimitConfig{Rate: 2})))
		for i := range 500 {
			r.append(pawl.Message{ID: fmt.Sprint("more-", i), Topic: "a"})
			time.Sleep(10 * time.Millisecond)
			if s := r.stats("a"); s.Leased > 2 {
				r.Fatalf("after %d looks, %d are leased", i, s.Leased)
			}
		}
	})
}

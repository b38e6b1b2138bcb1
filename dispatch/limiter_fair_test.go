package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// TestTopicsShareALimit: none of them takes all of it.
func TestTopicsShareALimit(t *testing.T) {
	for name, c := range map[string]dispatch.LimitConfig{
		"one at once": {Concurrency: 1}, "some at once": {Concurrency: 4}, "a rate": {Rate: 20},
		"a slow rate": {Rate: 2},
	} {
		for _, takes := range []time.Duration{2 * time.Millisecond, 100 * time.Millisecond} {
			wait := 30 * time.Second
			if c.Rate == 0 { // as many as work allows
				wait = 1500 * takes
			}
			t.Run(fmt.Sprint(name, takes), func(t *testing.T) {
				bubble(t, func(r *rig) {
					var seen crowd
					h := pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
						defer seen.enter(d.Topic)()
						time.Sleep(takes)
						return nil
					})
					l := limiter(t, c)
					r.append(numbered("a", 5000)...)
					r.append(numbered("b", 5000)...)
					r.run(dispatch.Config{Topics: []dispatch.Topic{
						{Name: "a", Handler: h, Limits: []*dispatch.Limiter{l}},
						{Name: "b", Handler: h, Limits: []*dispatch.Limiter{l}},
					}})
					time.Sleep(wait)
					if a, b := seen.count("a"), seen.count("b"); a < b/2 || b < a/2 || a == 0 {
						t.Errorf("%d of a, %d of b", a, b)
					}
				})
			})
		}
	}
}

// TestProcessesShareARate: each gets its turn.
func TestProcessesShareARate(t *testing.T) {
	for _, rate := range []float64{0.5, 8, 50, 300} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			bubble(t, func(r *rig) {
				var c crowd
				for _, topic := range []string{"a", "b"} {
					r.append(numbered(topic, int(31*rate)+50)...)
					_, stop, done := r.start(dispatch.Config{Topics: []dispatch.Topic{{
						Name: topic, Limits: []*dispatch.Limiter{limiter(t,
							dispatch.LimitConfig{Rate: rate, Shared: r.mem})},
						Handler: pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
							c.enter(d.Topic)()
							return nil
						}),
					}}})
					defer func() {
						stop()
						<-done
					}()
				}
				time.Sleep(30 * time.Second)
				a, b := c.count("a"), c.count("b")
				if sum := float64(a + b); a < b/2 || b < a/2 || sum < 0.9*30*rate || sum > 30*rate+rate/5+3 {
					t.Errorf("%d of a, %d of b, of %v together", a, b, 30*rate)
				}
			})
		})
	}
}

// TestDispatchersShareALimiter: what ends in one lets the other begin.
func TestDispatchersShareALimiter(t *testing.T) {
	bubble(t, func(r *rig) {
		var c crowd
		l := limiter(t, dispatch.LimitConfig{Concurrency: 1})
		h := func(_ context.Context, d *pawl.Delivery) error {
			defer c.enter(d.Topic)()
			time.Sleep(20 * time.Second)
			return nil
		}
		for _, topic := range []string{"a", "b"} {
			r.append(numbered(topic, 1)...)
			_, stop, done := r.start(dispatch.Config{Topics: []dispatch.Topic{{Name: topic,
				Handler: pawl.HandlerFunc(h), Limits: []*dispatch.Limiter{l}}}})
			defer func() {
				stop()
				<-done
			}()
			time.Sleep(time.Second)
		}
		time.Sleep(22 * time.Second)
		if a, b := c.count("a"), c.count("b"); a+b != 2 {
			t.Errorf("%d and %d began", a, b)
		}
	})
}

// TestDispatchersShareALimiterEach with two topics that are kept back: whose turn it
// is in the other dispatcher is not looked at.
func TestDispatchersShareALimiterEach(t *testing.T) {
	bubble(t, func(r *rig) {
		l := limiter(t, dispatch.LimitConfig{Concurrency: 1})
		h := pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error {
			time.Sleep(100 * time.Microsecond)
			return nil
		})
		topics := []string{"a", "b", "c", "d"}
		for _, names := range [][]string{topics[:2], topics[2:]} {
			var c dispatch.Config
			for _, name := range names {
				r.append(numbered(name, 200)...)
				c.Topics = append(c.Topics, dispatch.Topic{Name: name, Handler: h, Concurrency: 4,
					Limits: []*dispatch.Limiter{l}})
			}
			_, stop, done := r.start(c)
			defer func() {
				stop()
				<-done
			}()
		}
		time.Sleep(time.Minute)
		for _, name := range topics {
			equal(r, r.stats(name).Acked, int64(200))
		}
	})
}

// TestLimitsThatAgreeInTurn: one that allows while another does not must not count
// that against itself.
func TestLimitsThatAgreeInTurn(t *testing.T) {
	for _, sharedFirst := range []bool{true, false} {
		bubble(t, func(r *rig) {
			var c crowd
			learned := limiter(t, dispatch.LimitConfig{Name: "learned", Adaptive: 10})
			shared := limiter(t, dispatch.LimitConfig{Name: "shared", Rate: 1, Shared: r.mem})
			ls := []*dispatch.Limiter{learned, shared}
			if sharedFirst {
				ls = []*dispatch.Limiter{shared, learned}
			}
			r.append(numbered("a", 50)...)
			r.run(limited(20, func(_ context.Context, d *pawl.Delivery) error {
				c.enter("")()
				time.Sleep(8 * time.Second)
				if c.count("") == 3 {
					return pawl.Throttled(errors.New("busy"), 0)
				}
				return nil
			}, ls...))
			time.Sleep(10 * time.Minute)
			if n := c.count(""); n < 50 {
				t.Errorf("shared first: %v; %d of 50 began", sharedFirst, n)
			}
		})
	}
}

// TestRetryAfterOfOneIsNotThatOfAll, however long it is; one that is hardly limited
// goes on.
func TestRetryAfterOfOneIsNotThatOfAll(t *testing.T) {
	for name, c := range map[string]dispatch.LimitConfig{"at once": {Concurrency: 1000}, "a rate": {Rate: 100},
		"learned": {Adaptive: 10}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.append(numbered("a", 500)...)
				r.run(limited(4, func(_ context.Context, d *pawl.Delivery) error {
					if d.ID == "a-3" {
						return pawl.Throttled(errors.New("tomorrow"), 24*time.Hour)
					}
					return nil
				}, limiter(t, c)))
				time.Sleep(10 * time.Second)
				if s := r.stats("a"); s.Acked != 499 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// A limit that bounds nothing is a mistake.
func TestLimitWithoutABound(t *testing.T) {
	if l, err := dispatch.NewLimiter(dispatch.LimitConfig{Name: "api"}); err == nil ||
		!strings.Contains(err.Error(), "bounds nothing") {
		t.Errorf("%v, %v", l, err)
	}
}

// TestSetIsForWhatWaits, too.
func TestSetIsForWhatWaits(t *testing.T) {
	for name, c := range map[string]struct {
		from dispatch.LimitConfig
		rate float64
		most int
	}{
		"a rate": {dispatch.LimitConfig{Rate: 0.01}, 100, 0}, "at once": {dispatch.LimitConfig{Concurrency: 1}, 0, 50},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				var seen crowd
				l := limiter(t, c.from)
				r.append(numbered("a", 40)...)
				r.run(limited(50, func(context.Context, *pawl.Delivery) error {
					defer seen.enter("")()
					time.Sleep(time.Minute)
					return nil
				}, l))
				time.Sleep(5 * time.Second)
				if err := l.Set(c.rate, 0, c.most); err != nil {
					r.Fatal(err)
				}
				time.Sleep(5 * time.Second)
				if n := seen.count(""); n != 40 {
					t.Errorf("%d of 40 began", n)
				}
			})
		})
	}
}

// TestAwayIsNotForLong: what is sent away comes back to see whether it still must.
func TestAwayIsNotForLong(t *testing.T) {
	bubble(t, func(r *rig) {
		l := limiter(t, dispatch.LimitConfig{Rate: 1, By: byTenant})
		r.run(limited(20, func(context.Context, *pawl.Delivery) error { return nil }, l))
		r.append(tenants(store.OrderNone, "hot", 1000)...)
		time.Sleep(10 * time.Second)
		for m, err := range r.mem.List(r.Context(), store.Filter{Topic: "a", State: store.Delayed}) {
			if err != nil {
				r.Fatal(err)
			}
			if away := time.Until(m.NotBefore); away > time.Minute {
				r.Fatalf("%s is away for %v", m.ID, away)
			}
		}
		if err := l.Set(1000, 0, 0); err != nil {
			r.Fatal(err)
		}
		time.Sleep(70 * time.Second)
		equal(t, r.stats("a").Acked, int64(1000))
	})
}

// TestLimitedDoesNotChurn: what can't begin for long is not claimed and given back
// over and over.
func TestLimitedDoesNotChurn(t *testing.T) {
	for name, c := range map[string]dispatch.LimitConfig{"at once": {Concurrency: 2}, "a rate": {Rate: 0.1},
		"shared": {Rate: 0.1}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				if name == "shared" {
					c.Shared = r.mem
				}
				var released atomic.Int64 // settles overlap
				r.store.set(func() {
					r.store.settled = func(b store.Batch[store.Settlement]) {
						for _, s := range b.Items {
							if s.Verdict == store.Release {
								released.Add(1)
							}
						}
					}
				})
				r.append(numbered("a", 100)...)
				r.run(limited(8,
					func(context.Context, *pawl.Delivery) error { time.Sleep(3 * time.Second); return nil },
					limiter(t, c)))
				time.Sleep(time.Minute)
				if n := released.Load(); n > 10 {
					t.Errorf("%d given back in a minute", n)
				}
			})
		})
	}
}

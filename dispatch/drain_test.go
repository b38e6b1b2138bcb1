package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// A drain lets running handlers finish and gives back what was not started;
// nothing counts as an attempt or a rescue.
func TestDrainCostsNothing(t *testing.T) {
	bubble(t, func(r *rig) {
		var n, started, finished atomic.Int64
		r.append(numbered("a", 3000)...)
		r.append(keyed("a", "k", 100)...)
		r.run(one(4, func(context.Context, *pawl.Delivery) error {
			if n.Add(1) > 500 { // so that quick work is held here, then slow
				started.Add(1)
				time.Sleep(10 * time.Second)
				finished.Add(1)
			}
			return nil
		}))
		time.Sleep(100 * time.Millisecond)
		if r.d.Snapshot().Topics[0].Waiting == 0 {
			r.Fatal("the test shows nothing")
		}
		began := time.Now()
		r.stop()
		equal(r, r.ended(), nil)
		if took := time.Since(began); took < 9*time.Second || took > 10*time.Second {
			r.Fatalf("took %v", took)
		}
		equal(r, []int64{started.Load(), finished.Load()}, []int64{4, 4})
		s := r.stats("a")
		equal(r, []int64{s.Acked, s.Waiting, s.Leased, s.Rescues, s.Retried}, []int64{504, 3100 - 504, 0, 0, 0})
		if err := r.d.Ready(); err == nil {
			r.Fatal("ready after the end")
		}
	})
}

// What does not finish in time is told so, and released.
func TestDrainTimeout(t *testing.T) {
	bubble(t, func(r *rig) {
		var cause diary
		r.append(pawl.Message{Topic: "a", ID: "x"}, pawl.Message{Topic: "a", ID: "y"})
		c := one(2, func(ctx context.Context, d *pawl.Delivery) error {
			<-ctx.Done()
			cause.add("%v", context.Cause(ctx))
			if d.ID == "y" {
				return nil // it did finish after all
			}
			return pawl.Permanent(ctx.Err()) // whatever it says
		})
		c.DrainTimeout = 7 * time.Second
		r.run(c)
		time.Sleep(time.Second)
		began := time.Now()
		r.stop()
		equal(r, r.ended(), nil)
		equal(r, time.Since(began), 7*time.Second)
		equal(r, cause.list(), []string{"draining", "draining"})
		rec := r.get("x")
		equal(r, []any{rec.State, rec.Attempts, rec.Rescues}, []any{store.Waiting, 0, 0})
		r.gone("y")
	})
}

// What does not even return then is released with a lane that stays closed, and
// reported.
func TestDrainOfAStuckHandler(t *testing.T) {
	bubble(t, func(r *rig) {
		stuck := make(chan struct{})
		defer close(stuck)
		r.append(pawl.Message{Topic: "a", ID: "x"})
		c := one(1, func(context.Context, *pawl.Delivery) error { <-stuck; return nil })
		c.DrainTimeout = 4 * time.Second
		r.run(c)
		time.Sleep(time.Second)
		began := time.Now()
		r.stop()
		if err := r.ended(); !errors.Is(err, dispatch.ErrStuck) {
			r.Fatal(err)
		}
		equal(r, time.Since(began), 8*time.Second)
		rec := r.get("x")
		equal(r, []any{rec.State, rec.Attempts, rec.Rescues}, []any{store.Delayed, 0, 0})
		if wait := time.Until(rec.NotBefore); wait < 15*time.Second || wait > 30*time.Second {
			r.Fatalf("closed for %v", wait)
		}
	})
}

// A claim that is on its way when the drain begins is given back.
func TestDrainDuringAClaim(t *testing.T) {
	bubble(t, func(r *rig) {
		var slow atomic.Bool
		slow.Store(true)
		r.store.Store = frozen{r.mem, &slow}
		r.append(numbered("a", 1)...)
		r.run(one(1, func(context.Context, *pawl.Delivery) error { t.Error("started"); return nil }))
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		r.stop()
		equal(r, r.ended(), nil)
		equal(r, time.Since(began), 850*time.Millisecond) // as soon as it is there
		rec := r.get("a-0")
		equal(r, []any{rec.State, rec.Attempts, rec.Rescues}, []any{store.Waiting, 0, 0})
	})
}

// A store that is gone bounds no drain.
func TestDrainWithoutStore(t *testing.T) {
	bubble(t, func(r *rig) {
		var down atomic.Bool
		r.store.settle = func(store.Batch[store.Settlement]) error {
			if down.Load() {
				return &store.Error{Op: "settle", Code: store.ErrUnavailable}
			}
			return nil
		}
		r.append(numbered("a", 1)...)
		r.run(one(1, func(context.Context, *pawl.Delivery) error { down.Store(true); return nil }))
		time.Sleep(time.Second)
		began := time.Now()
		r.stop()
		if err := r.ended(); err == nil || !strings.Contains(err.Error(), "1 deliveries could not be settled") {
			r.Fatal(err)
		}
		if took := time.Since(began); took > 15*time.Second {
			r.Fatalf("took %v", took)
		}
	})
}

// Kill is the end of a process: nothing is settled, another one rescues.
func TestKill(t *testing.T) {
	bubble(t, func(r *rig) {
		var cause diary
		began := time.Now()
		r.append(numbered("a", 20)...)
		first, _, done := r.start(one(10, func(ctx context.Context, _ *pawl.Delivery) error {
			<-ctx.Done()
			cause.add("%v", context.Cause(ctx))
			return nil
		}))
		time.Sleep(time.Second)
		first.Kill()
		equal(r, <-done, dispatch.ErrKilled)
		equal(r, time.Since(began), time.Second)
		synctest.Wait()
		equal(r, len(cause.list()), 10)
		equal(r, r.stats("a").Leased, int64(10))
		r.run(one(10, func(context.Context, *pawl.Delivery) error { return nil }))
		time.Sleep(40 * time.Second)
		s := r.stats("a")
		equal(r, []int64{s.Acked, s.Rescues}, []int64{20, 10})
	})
}

func TestRunTwice(t *testing.T) {
	bubble(t, func(r *rig) {
		r.run(one(1, func(context.Context, *pawl.Delivery) error { return nil }))
		synctest.Wait()
		equal(r, r.d.Run(context.Background()), dispatch.ErrRan)
	})
}

// A store that fails is waited for, and talked about once.
func TestOutageIsLoggedOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		var down atomic.Bool
		down.Store(true)
		var claims atomic.Int64
		r.store.claim = func([]store.Want, store.Lease) error {
			claims.Add(1)
			if down.Load() {
				return &store.Error{Op: "claim", Code: store.ErrUnavailable, Hint: "is it started?"}
			}
			return nil
		}
		var text logged
		c := one(1, func(context.Context, *pawl.Delivery) error { return nil })
		c.Logger = text.logger()
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(c)
		time.Sleep(time.Minute)
		if n := claims.Load(); n > 25 || n < 12 {
			r.Fatalf("%d tries in a minute", n)
		}
		down.Store(false)
		time.Sleep(10 * time.Second)
		r.gone("x")
		equal(r, text.count("store fails"), 1)
		equal(r, text.count("is it started?"), 1)
		equal(r, text.count("store is back"), 1)
	})
}

// One that goes on failing is talked about every minute.
func TestOutageIsLoggedAgain(t *testing.T) {
	bubble(t, func(r *rig) {
		r.store.claim = func([]store.Want, store.Lease) error {
			return &store.Error{Op: "claim", Code: store.ErrUnavailable}
		}
		var text logged
		c := one(1, func(context.Context, *pawl.Delivery) error { return nil })
		c.Logger = text.logger()
		r.run(c)
		time.Sleep(10*time.Minute + 30*time.Second)
		if n := text.count("store fails"); n < 9 || n > 11 {
			r.Errorf("%d reminders in ten minutes", n)
		}
	})
}

// What a person must see ends Run at the start; later, it is an outage.
func TestErrorsThatEndRun(t *testing.T) {
	for _, code := range []error{store.ErrDenied, store.ErrSchema, store.ErrConflict, store.ErrClosed,
		store.ErrInvalid} {
		for _, late := range []bool{false, true} {
			name := code.Error()
			if late {
				name += " later"
			}
			t.Run(name, func(t *testing.T) {
				bubble(t, func(r *rig) {
					began := time.Now()
					r.store.claim = func([]store.Want, store.Lease) error {
						if since := time.Since(began); late && since < time.Minute || since > 2*time.Minute {
							return nil
						}
						return &store.Error{Op: "claim", Code: code}
					}
					r.run(one(1, func(context.Context, *pawl.Delivery) error { return nil }))
					time.Sleep(5 * time.Minute)
					ends := !late || code == store.ErrClosed || code == store.ErrInvalid
					if len(r.done) == 0 && ends || len(r.done) > 0 && !ends {
						r.Fatalf("ended: %v, should: %v", len(r.done) > 0, ends)
					}
					if ends {
						if err := r.ended(); !errors.Is(err, code) {
							r.Fatal(err)
						}
					}
				})
			})
		}
	}
}

func TestSettingsAreDeclared(t *testing.T) {
	bubble(t, func(r *rig) {
		c := one(1, func(context.Context, *pawl.Delivery) error { return nil })
		c.Topics[0].Settings = store.Declaration{Order: store.OrderNone, Deadline: time.Minute}
		r.run(c)
		time.Sleep(time.Second)
		now, err := r.mem.Topic(r.Context(), "a")
		equal(r, err, nil)
		equal(r, []any{now.Order, now.Deadline, now.Version}, []any{store.OrderNone, time.Minute, 1})
		c.Topics[0].Settings.Deadline = time.Hour // by a newer version, while the older one runs
		_, stop, newer := r.start(c)
		time.Sleep(time.Second)
		now, err = r.mem.Topic(r.Context(), "a")
		equal(r, err, nil)
		equal(r, []any{now.Deadline, now.Version}, []any{time.Hour, 2})
		stop()
		equal(r, <-newer, nil)
		r.append(pawl.Message{Topic: "a", Delay: time.Hour})
		c.Topics[0].Settings.Order = store.OrderKey
		_, _, done := r.start(c)
		if err := <-done; !errors.Is(err, store.ErrConflict) {
			r.Fatal(err)
		}
	})
}

// A drain in the middle of a run gives the rest of it back.
func TestDrainInTheMiddleOfARun(t *testing.T) {
	bubble(t, func(r *rig) {
		warm(r)
		r.append(keyed("a", "k", 50)...)
		r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.Key != nil {
				time.Sleep(time.Second)
			}
			return nil
		}))
		time.Sleep(2500 * time.Millisecond)
		began := time.Now()
		r.stop()
		equal(r, r.ended(), nil)
		equal(r, time.Since(began), 500*time.Millisecond)
		s := r.stats("a")
		equal(r, []int64{s.Acked, s.Waiting, s.Rescues, s.Retried}, []int64{3 + warmUp, 47, 0, 0})
	})
}

// A claim that does not come back is not waited for.
func TestDrainDuringAClaimThatHangs(t *testing.T) {
	bubble(t, func(r *rig) {
		r.store.Store = hanging{r.mem}
		r.run(one(1, func(context.Context, *pawl.Delivery) error { return nil }))
		time.Sleep(time.Second)
		began := time.Now()
		r.stop()
		equal(r, r.ended(), nil)
		equal(r, time.Since(began), 2*time.Second)
	})
}

// hanging is a store whose claims do not end before their context.
type hanging struct{ store.Store }

func (h hanging) Claim(ctx context.Context, _ []store.Want, _ store.Lease) ([]pawl.Delivery, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Settings that cannot be read yet are waited for; those that nobody may read
// end Run.
func TestSettingsOfAStoreThatIsAway(t *testing.T) {
	bubble(t, func(r *rig) {
		until := time.Now().Add(10 * time.Second)
		r.store.Store = unsettled{r.mem, r.mem, func() error {
			if time.Now().Before(until) {
				return errGone
			}
			return nil
		}}
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(one(1, func(context.Context, *pawl.Delivery) error { return nil }))
		time.Sleep(9 * time.Second)
		equal(r, r.get("x").State, store.Waiting)
		time.Sleep(10 * time.Second)
		r.gone("x")
	})
	bubble(t, func(r *rig) {
		r.store.Store = unsettled{r.mem, r.mem, func() error {
			return &store.Error{Op: "topic", Code: store.ErrDenied}
		}}
		r.run(one(1, func(context.Context, *pawl.Delivery) error { return nil }))
		if err := r.ended(); !errors.Is(err, store.ErrDenied) {
			r.Fatal(err)
		}
	})
	bubble(t, func(r *rig) { // a drain does not wait for it
		r.store.Store = unsettled{r.mem, r.mem, func() error { return errGone }}
		r.run(one(1, func(context.Context, *pawl.Delivery) error { return nil }))
		time.Sleep(20 * time.Second)
		began := time.Now()
		r.stop()
		equal(r, r.ended(), nil)
		equal(r, time.Since(began), time.Duration(0))
	})
}

// unsettled is a store whose settings cannot be read while err says so.
type unsettled struct {
	store.Store
	store.Topics
	err func() error
}

func (u unsettled) Topic(ctx context.Context, name string) (store.Topic, error) {
	if err := u.err(); err != nil {
		return store.Topic{}, err
	}
	return u.Topics.Topic(ctx, name)
}

// A pause that the store cannot keep is refused.
func TestPauseWithoutSettings(t *testing.T) {
	d, err := dispatch.New(deaf{}, one(1, func(context.Context, *pawl.Delivery) error { return nil }))
	equal(t, err, nil)
	if err := d.Pause(t.Context(), "a", 0, "me", "why"); !errors.Is(err, store.ErrUnsupported) {
		t.Error(err)
	}
	if err := d.Resume(t.Context(), "a"); !errors.Is(err, store.ErrUnsupported) {
		t.Error(err)
	}
}

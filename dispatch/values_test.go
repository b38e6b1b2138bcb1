package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// hostile are errors whose methods panic, or never come to an end.
type hostile struct{ in string }

func (h *hostile) Error() string {
	if h.in == "Error" {
		panic("in Error")
	}
	return "hostile in " + h.in
}

func (h *hostile) Unwrap() error {
	switch h.in {
	case "Unwrap":
		panic("in Unwrap")
	case "circle":
		return h
	}
	return nil
}

func (h *hostile) Is(error) bool { return h.As(nil) }

func (h *hostile) As(any) bool {
	if h.in == "As" {
		panic("in As")
	}
	return false
}

func (h *hostile) Timeout() bool {
	if h.in == "Timeout" {
		panic("in Timeout")
	}
	return false
}

// nested is an error whose text panics with itself, which package fmt does not recover from.
type nested struct{}

func (n nested) Error() string { panic(n) }

// hostileErrors are what a handler may return, by what is wrong with it.
func hostileErrors() map[string]error {
	var none *hostile
	all := map[string]error{"typed nil": none, "wrapped": pawl.Permanent(none), "joined": errors.Join(errBroken, none),
		"nil failure": (*pawl.Failure)(nil), "nil release": (*pawl.ReleaseError)(nil), "nested": nested{}}
	for _, in := range []string{"Error", "Unwrap", "As", "Timeout", "circle"} {
		all[in] = &hostile{in}
	}
	return all
}

// TestErrorWhoseMethodsPanic: what a handler returns cannot end the process; the delivery fails as a panic of the
// handler does, and says of which type the error was.
func TestErrorWhoseMethodsPanic(t *testing.T) {
	for name, bad := range hostileErrors() {
		for _, batch := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, batch %v", name, batch), func(t *testing.T) {
				bubble(t, func(r *rig) {
					limit, err := dispatch.NewLimiter(dispatch.LimitConfig{Name: "l", Concurrency: 5, Adaptive: 5})
					equal(r, err, nil)
					verdict := func(d *pawl.Delivery) error {
						if d.ID == "x" {
							return bad
						}
						return nil
					}
					c := one(1, func(_ context.Context, d *pawl.Delivery) error { return verdict(d) })
					if batch {
						c = batched(1, 10, func(_ context.Context, ds []*pawl.Delivery) (verdicts []error) {
							for _, d := range ds {
								verdicts = append(verdicts, verdict(d))
							}
							return verdicts
						})
					}
					c.Topics[0].Limits = []*dispatch.Limiter{limit}
					c.Observer, c.Events = &nosy{}, &sink{}
					r.append(pawl.Message{Topic: "a", ID: "x"}, pawl.Message{Topic: "a", ID: "y"})
					r.run(c)
					time.Sleep(time.Minute)
					r.gone("y")
					rec := r.get("x")
					equal(r, []any{rec.State, rec.Attempts, rec.Kind}, []any{store.IsDead, 2, pawl.KindPanic})
					if !strings.HasPrefix(rec.Reason, fmt.Sprintf("the handler returned a %T", bad)) {
						r.Fatal(rec.Reason)
					}
				})
			})
		}
	}
}

// TestPanicWithWhatCannotBePrinted: a value that panics when it is printed is named by its type.
func TestPanicWithWhatCannotBePrinted(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(one(1, func(context.Context, *pawl.Delivery) error { panic(nested{}) }))
		time.Sleep(time.Minute)
		rec := r.get("x")
		equal(r, []any{rec.State, rec.Kind}, []any{store.IsDead, pawl.KindPanic})
		if !strings.HasPrefix(rec.Reason, "panic: a dispatch_test.nested, which panics when it is printed\n") {
			r.Error(rec.Reason)
		}
	})
}

// TestDeliveryIsACopy: what a handler writes to its delivery, or to the batch, changes nothing but its copy.
func TestDeliveryIsACopy(t *testing.T) {
	spoil := func(d *pawl.Delivery) {
		d.ID, d.Topic, d.Key, d.Priority = "other", "no such topic", []byte("other"), 100
		d.Token, d.Attempt, d.Rescues, d.Deadline, d.LeaseFor = pawl.Token{}, 100, 9, 0, 0
		d.EnqueuedAt, d.Tail, d.Body, d.Headers = time.Time{}, true, nil, nil
	}
	for _, quick := range []bool{false, true} {
		for _, batch := range []bool{false, true} {
			t.Run(fmt.Sprintf("quick %v, batch %v", quick, batch), func(t *testing.T) {
				bubble(t, func(r *rig) {
					if quick {
						warm(r)
					}
					h := func(ctx context.Context, d *pawl.Delivery) error {
						if d.ID[0] == 'w' {
							return nil
						}
						first := d.Attempt == 1
						spoil(d)
						_, _ = policy.Degraded(ctx, errBroken)
						dispatch.Step(ctx, policy.Event{Type: "Parser"}, dispatch.Started)
						if first {
							return errBroken
						}
						d.Emit(pawl.Message{Topic: "b"})
						return nil
					}
					c := one(1, h)
					if batch {
						c = batched(1, 100, func(ctx context.Context, ds []*pawl.Delivery) (verdicts []error) {
							for _, d := range ds {
								verdicts = append(verdicts, h(ctx, d))
							}
							slices.Reverse(ds)
							clear(ds)
							return verdicts
						})
					}
					c.Observer, c.Events = &nosy{}, &sink{}
					r.append(numbered("a", 20)...)
					r.append(keyed("a", "k", 5)...)
					r.run(c)
					time.Sleep(time.Hour)
					s := r.stats("a")
					equal(r, []int64{s.Waiting, s.Retried, s.Rescues, s.Dead}, []int64{0, 25, 0, 0})
					equal(r, r.stats("b").Waiting, int64(25))
				})
			})
		}
	}
}

// blocking is an error whose text does not come.
type blocking struct{ until chan struct{} }

func (b blocking) Error() string {
	<-b.until
	return "at last"
}

// TestErrorWhoseMethodsBlock: an error whose methods do not return is given up as a handler that does not return is;
// what it had is free for others, and a drain does not wait for it.
func TestErrorWhoseMethodsBlock(t *testing.T) {
	for _, batch := range []bool{false, true} {
		t.Run(fmt.Sprintf("batch %v", batch), func(t *testing.T) {
			bubble(t, func(r *rig) {
				until := make(chan struct{})
				defer close(until)
				verdict := func(d *pawl.Delivery) error {
					if d.ID == "x" && d.Attempt == 1 || d.ID == "z" {
						return blocking{until}
					}
					return nil
				}
				c := one(1, func(_ context.Context, d *pawl.Delivery) error { return verdict(d) })
				if batch {
					c = batched(1, 1, func(_ context.Context, ds []*pawl.Delivery) []error { return []error{verdict(ds[0])} })
				}
				c.MaxZombies = 5
				c.Topics[0].Settings.Deadline = time.Minute
				r.append(pawl.Message{Topic: "a", ID: "x"})
				r.run(c)
				time.Sleep(time.Second)
				r.append(pawl.Message{Topic: "a", ID: "y"})
				time.Sleep(2 * time.Minute)
				r.gone("y")
				x := r.get("x")
				equal(r, []int{x.Attempts, x.Rescues}, []int{1, 0}) // its lane is closed here
				equal(r, r.d.Snapshot().Topics[0].Zombies, 1)
				r.append(pawl.Message{Topic: "a", ID: "z"})
				time.Sleep(time.Second)
				began := time.Now()
				r.stop()
				if err := r.ended(); err == nil || !strings.Contains(err.Error(), "2 handlers did not return") {
					r.Error(err)
				}
				equal(r, time.Since(began) < time.Minute, true)
			})
		})
	}
}

// panicky is an observer, and a sink of events, that panics at everything.
type panicky struct{}

func (panicky) StoreCall(string, time.Duration, int, error)               { panic("oh") }
func (panicky) Claimed(string, int, []time.Duration)                      { panic("oh") }
func (panicky) Ran(string, []time.Duration)                               { panic("oh") }
func (panicky) Settled(string, string, int, []time.Duration)              { panic("oh") }
func (panicky) Refused(string, string, int)                               { panic("oh") }
func (panicky) Load(string, int, int, int, int)                           { panic("oh") }
func (panicky) Event(dispatch.Event)                                      { panic("oh") }
func (panicky) RanKeys(string, [][]byte, []time.Duration)                 { panic("oh") }
func (panicky) GivenBack(string, int)                                     { panic("oh") }
func (panicky) Decided(_, _, _, _ string, _ pawl.Kind, _, _, _, _ string) { panic("oh") }

// TestWhoeverIsToldMayPanic: an observer and a sink that panic end nothing.
func TestWhoeverIsToldMayPanic(t *testing.T) {
	bubble(t, func(r *rig) {
		var other nosy
		c := one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.Attempt == 1 {
				return errBroken
			}
			return nil
		})
		c.Observer, c.Events = dispatch.Observers(panicky{}, &other), panicky{}
		r.append(numbered("a", 5)...)
		r.run(c)
		time.Sleep(time.Minute)
		equal(r, r.stats("a").Acked, int64(5))
		equal(r, other.sums()["settled a ack"], 5)
	})
}

// TestByIsAskedOnce: a call has one key, whatever a By answers next; what it writes to its delivery changes nothing.
func TestByIsAskedOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		asked := 0
		limit, err := dispatch.NewLimiter(dispatch.LimitConfig{Name: "l", Concurrency: 1,
			By: func(d *pawl.Delivery) string {
				d.Topic, d.Token, d.Deadline = "other", pawl.Token{}, 0
				asked++
				return fmt.Sprint("k", asked%3)
			}})
		equal(r, err, nil)
		c := one(5, func(context.Context, *pawl.Delivery) error { time.Sleep(time.Second); return nil })
		c.Topics[0].Limits = []*dispatch.Limiter{limit}
		r.append(numbered("a", 20)...)
		r.append(keyed("a", "k", 5)...)
		r.run(c)
		time.Sleep(time.Minute)
		equal(r, []any{r.stats("a").Acked, limit.Snapshot().Running}, []any{int64(25), 0})
	})
}

// TestSizeMayPanic: while the size of a limit panics nothing begins, the log says so, and the process goes on.
func TestSizeMayPanic(t *testing.T) {
	bubble(t, func(r *rig) {
		var fine atomic.Bool
		limit, err := dispatch.NewLimiter(dispatch.LimitConfig{Name: "l", Size: func() float64 {
			if !fine.Load() {
				panic("oh")
			}
			return 2
		}})
		equal(r, err, nil)
		c := one(5, func(context.Context, *pawl.Delivery) error { return nil })
		c.Topics[0].Limits = []*dispatch.Limiter{limit}
		var log logged
		c.Logger = log.logger()
		r.append(numbered("a", 20)...)
		r.run(c)
		time.Sleep(50 * time.Second)
		equal(r, log.count("a function of a limit panicked"), 1)
		equal(r, r.stats("a").Acked, int64(0))
		fine.Store(true)
		equal(r, limit.Set(0, 0, 0), nil)
		time.Sleep(time.Minute)
		equal(r, r.stats("a").Acked, int64(20))
	})
}

// badLog is a log that panics at everything.
type badLog struct{}

func (badLog) Enabled(context.Context, slog.Level) bool  { return true }
func (badLog) Handle(context.Context, slog.Record) error { panic("oh") }
func (b badLog) WithAttrs([]slog.Attr) slog.Handler      { return b }
func (b badLog) WithGroup(string) slog.Handler           { return b }

// TestLogMayPanic: a log that panics, perhaps at a value of its own, ends nothing.
func TestLogMayPanic(t *testing.T) {
	bubble(t, func(r *rig) {
		c := one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.ID == "a-0" {
				return errBroken
			}
			return nil
		})
		c.Logger, c.Events = slog.New(badLog{}).With("a", 1), panicky{}
		r.append(numbered("a", 5)...)
		r.run(c)
		time.Sleep(time.Minute)
		equal(r, r.stats("a").Acked, int64(4))
		equal(r, r.get("a-0").Reason, errBroken.Error())
	})
}

// exiting is a sink, and a policy, that ends its goroutine, as t.FailNow in a test's does.
type exiting struct{}

func (exiting) Event(dispatch.Event)                  { runtime.Goexit() }
func (exiting) Decide(policy.Attempt) policy.Decision { runtime.Goexit(); return policy.Decision{} }

// TestWhoeverIsAskedMayExit: a policy or a sink that ends the goroutine does not do so for ever.
func TestWhoeverIsAskedMayExit(t *testing.T) {
	for _, sink := range []bool{false, true} {
		bubble(t, func(r *rig) {
			c := one(1, func(_ context.Context, d *pawl.Delivery) error {
				if d.ID == "y" && !sink {
					return nil
				}
				return errBroken
			})
			if c.Policy = (exiting{}); sink {
				c.Policy, c.Events = nil, exiting{}
			}
			r.append(pawl.Message{Topic: "a", ID: "x"}, pawl.Message{Topic: "a", ID: "y"})
			r.run(c)
			time.Sleep(time.Minute)
			rec := r.get("x")
			equal(r, []any{rec.State, rec.Attempts, rec.Rescues, rec.Kind}, []any{store.IsDead, 2, 0, pawl.KindPanic})
			if !strings.Contains(rec.Reason, "ended the goroutine") {
				r.Error(rec.Reason)
			}
			if !sink {
				r.gone("y")
			}
		})
	}
}

// TestLongErrorIsCutInTheLog: a line of the log has no more of an error than the attempt's record.
func TestLongErrorIsCutInTheLog(t *testing.T) {
	bubble(t, func(r *rig) {
		var log logged
		long := strings.Repeat("x", 1<<20)
		c := one(2, func(_ context.Context, d *pawl.Delivery) error {
			if d.ID == "a-0" {
				return pawl.Release(time.Hour, long)
			}
			return pawl.Permanent(errors.New(long))
		})
		c.Logger = log.logger()
		r.append(numbered("a", 2)...)
		r.run(c)
		time.Sleep(time.Second)
		equal(r, []int{log.count("delivery failed"), log.count("delivery given back")}, []int{1, 1})
		equal(r, log.count("x") < 3*store.MaxReason, true)
	})
}

// longPanic panics at everything with a megabyte, as its policy does.
type longPanic struct{ nosy }

func (*longPanic) Event(dispatch.Event)                 { panic(strings.Repeat("x", 1<<20)) }
func (*longPanic) Claimed(string, int, []time.Duration) { panic(strings.Repeat("x", 1<<20)) }

// TestLongPanicIsCut: a panic of whatever is the user's is as long as a record in the log, and the reason of one of a
// handler keeps its stack.
func TestLongPanicIsCut(t *testing.T) {
	bubble(t, func(r *rig) {
		var log logged
		c := one(1, func(context.Context, *pawl.Delivery) error { panic(strings.Repeat("x", 1<<20)) })
		c.Observer, c.Events, c.Logger = &longPanic{}, &longPanic{}, log.logger()
		c.Policy = policy.Func(func(policy.Attempt) policy.Decision { panic(strings.Repeat("x", 1<<20)) })
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(c)
		time.Sleep(time.Minute)
		rec := r.get("x")
		equal(r, []any{rec.State, rec.Kind, strings.Contains(rec.Reason, "values_test.go")},
			[]any{store.IsDead, pawl.KindPanic, true})
		equal(r, log.count("panicked") >= 3, true)
		equal(r, log.count("x") < 20*store.MaxReason, true)
	})
}

// A failure that was made by hand, without an error, fails by its class.
func TestFailureWithoutAnErrorKeepsItsClass(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(one(1, func(context.Context, *pawl.Delivery) error {
			return &pawl.Failure{Class: pawl.ClassPermanent, Kind: "Mine"}
		}))
		time.Sleep(time.Minute)
		rec := r.get("x")
		equal(r, []any{rec.State, rec.Attempts, rec.Kind, rec.Reason},
			[]any{store.IsDead, 1, pawl.Kind("Mine"), "permanent failure Mine"})
	})
}

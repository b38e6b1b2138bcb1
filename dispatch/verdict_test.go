package dispatch_test

import (
	"context"
	"errors"
	"fmt"
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

func TestFailureIsRecordedAndExhausted(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(pawl.Message{Topic: "a", ID: "x"})
		c := one(1, func(context.Context, *pawl.Delivery) error {
			time.Sleep(time.Second)
			return pawl.OfKind("Download", errBroken)
		})
		c.Owner, c.Topics[0].Retries.Attempts = "me", 10
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		rec := r.get("x")
		equal(r, []any{rec.State, rec.Attempts, rec.Kind, rec.Reason}, []any{store.IsDead, 10, "Download", "broken"})
		first, last := rec.History[0], rec.History[9]
		equal(r, []any{first.Worker, first.Kind, first.Error, first.Rule}, []any{"me", "Download", "broken", "default"})
		equal(r, first.EndedAt.Sub(first.StartedAt), time.Second)
		if !strings.HasPrefix(first.Action, "retry: attempt 1 of 10") ||
			!strings.HasPrefix(last.Action, "dead: attempt 10 of 10") {
			r.Fatal(first.Action, last.Action)
		}
		for i, a := range rec.History[:9] {
			if wait := rec.History[i+1].StartedAt.Sub(a.EndedAt); wait < 500*time.Millisecond ||
				wait > 30*time.Second+10*time.Millisecond {
				r.Fatalf("attempt %d came after %v", i+2, wait)
			}
		}
	})
}

func TestPermanentIsDeadAtOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(one(1, func(context.Context, *pawl.Delivery) error { return pawl.Permanent(errBroken) }))
		time.Sleep(time.Second)
		rec := r.get("x")
		equal(r, []any{rec.State, rec.Attempts}, []any{store.IsDead, 1})
	})
}

// Throttled messages come back when the other side said, however often.
func TestThrottledIsRespected(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		began := time.Now()
		r.append(pawl.Message{Topic: "a", ID: "x"})
		c := one(1, func(_ context.Context, d *pawl.Delivery) error {
			seen.add("%v", time.Since(began).Truncate(time.Second))
			if d.Throttles < 15 {
				return pawl.Throttled(errBroken, time.Minute)
			}
			return nil
		})
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		got := seen.list()
		equal(r, len(got), 16)
		equal(r, got[15], "15m0s")
		r.gone("x")
	})
}

func TestReleaseCountsNothing(t *testing.T) {
	bubble(t, func(r *rig) {
		var n atomic.Int64
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
			if n.Add(1) == 1 {
				return fmt.Errorf("wrapped: %w", pawl.Release(time.Minute, "host is busy"))
			}
			if d.Attempt != 1 {
				t.Errorf("attempt %d", d.Attempt)
			}
			return nil
		}))
		time.Sleep(59 * time.Second)
		rec := r.get("x")
		equal(r, []any{rec.State, rec.Attempts, rec.Rescues, rec.Reason},
			[]any{store.Delayed, 0, 0, "released: host is busy"})
		time.Sleep(2 * time.Second)
		r.gone("x")
	})
}

// noMap returns a map that panics when it is written to.
func noMap() map[string]int { return nil }

// A panic is recorded with its stack, repeated once, and dead when it repeats.
func TestPanicsAreContained(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(pawl.Message{Topic: "a", ID: "x"}, pawl.Message{Topic: "a", ID: "y"})
		r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.ID == "y" {
				return nil
			}
			m := noMap()
			m["x"] = 1
			return nil
		}))
		time.Sleep(time.Minute)
		rec := r.get("x")
		equal(r, []any{rec.State, rec.Attempts, rec.Kind}, []any{store.IsDead, 2, pawl.KindPanic})
		if !strings.HasPrefix(rec.Reason, "panic: assignment to entry in nil map\n") ||
			!strings.Contains(rec.Reason, "TestPanicsAreContained") {
			r.Fatal(rec.Reason)
		}
		r.gone("y")
	})
}

// A handler that ends its goroutine takes nothing with it: neither its message
// nor the slot.
func TestGoexitIsContained(t *testing.T) {
	bubble(t, func(r *rig) {
		warm(r)
		r.append(numbered("a", 20)...)
		r.append(keyed("a", "k", 5)...)
		h := func(_ context.Context, d *pawl.Delivery) error {
			if d.Attempt == 1 && d.ID[0] != 'w' {
				runtime.Goexit()
			}
			return nil
		}
		c := one(1, h)
		c.Topics = append(c.Topics, dispatch.Topic{Name: "b", Concurrency: 1, Batch: pawl.BatchHandlerFunc(
			func(ctx context.Context, ds []*pawl.Delivery) []error { return []error{h(ctx, ds[0])} })})
		r.append(pawl.Message{Topic: "b", ID: "in a batch"})
		r.run(c)
		time.Sleep(time.Minute)
		s := r.stats("a")
		equal(r, []int64{s.Acked, s.Retried, s.Rescues}, []int64{25 + warmUp, 25, 0})
		s = r.stats("b")
		equal(r, []int64{s.Acked, s.Retried, s.Rescues}, []int64{1, 1, 0})
		equal(r, r.d.Snapshot().Topics[0].Running, 0)
	})
}

// What is emitted appears with the ack, and not without it; it carries the trace.
func TestEmitsGoWithTheAck(t *testing.T) {
	bubble(t, func(r *rig) {
		var got diary
		shared := map[string]string{"k": "v"}
		r.append(pawl.Message{Topic: "a", ID: "x", Headers: map[string]string{"traceparent": trace,
			"tracestate": "s=1"}})
		c := one(1, func(_ context.Context, d *pawl.Delivery) error {
			own := map[string]string{"traceparent": "00-of-its-own"}
			d.Emit(pawl.Message{Topic: "b", Headers: shared}, pawl.Message{Topic: "b"},
				pawl.Message{Topic: "b", Headers: own})
			if d.Attempt == 1 {
				return errBroken
			}
			return nil
		})
		c.Topics = append(c.Topics, dispatch.Topic{Name: "b",
			Handler: pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
				got.add("%s %v", d.ID, d.Headers)
				return nil
			}), Concurrency: 1})
		c.UntilEmpty = true
		r.run(c)
		equal(r, r.ended(), nil)
		want := []string{
			pawl.EmitID("x", 0) + " map[k:v traceparent:" + trace + " tracestate:s=1]",
			pawl.EmitID("x", 1) + " map[traceparent:" + trace + " tracestate:s=1]",
			pawl.EmitID("x", 2) + " map[traceparent:00-of-its-own]",
		}
		slices.Sort(want) // they have no key, and so no order
		equal(r, slices.Sorted(slices.Values(got.list())), want)
		equal(r, len(shared), 1) // the handler's map is left alone
	})
}

// What is emitted is what it was when it was emitted: a handler may use its buffers for the next message.
func TestEmitsAreCopies(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
			body, headers := []byte("before"), map[string]string{"h": "before"}
			d.Emit(pawl.Message{Topic: "b", Key: body, Body: body, Headers: headers})
			mark := pawl.Mark{Scope: "s", Key: "k", Value: body}
			d.Mark(mark)
			copy(body, "after!")
			headers["h"] = "after"
			return nil
		}))
		time.Sleep(time.Minute)
		got := r.get(pawl.EmitID("x", 0))
		equal(r, []string{string(got.Key), string(got.Body), got.Headers["h"]}, []string{"before", "before", "before"})
		marks, err := r.mem.GetMarks(r.Context(), "s", "k")
		equal(r, []any{err, len(marks), string(marks["k"].Value)}, []any{nil, 1, "before"})
	})
}

// What no store takes fails its own delivery, and nothing else.
func TestInvalidEmitIsPermanent(t *testing.T) {
	bubble(t, func(r *rig) {
		big := make([]byte, pawl.MaxBody)
		r.append(numbered("a", 5)...)
		r.run(one(5, func(_ context.Context, d *pawl.Delivery) error {
			switch d.ID {
			case "a-1":
				d.Emit(pawl.Message{Topic: "not a topic"})
			case "a-2":
				for range 5 {
					d.Emit(pawl.Message{Topic: "b", Body: big})
				}
			}
			return nil
		}))
		time.Sleep(time.Minute)
		equal(r, r.get("a-1").Reason, `emit [0] to topic "not a topic": topic "not a topic" holds ' '; `+
			"a topic is made of A-Z a-z 0-9 . _ -")
		for _, id := range []string{"a-1", "a-2"} {
			rec := r.get(id)
			equal(r, []any{id, rec.State, rec.Attempts, rec.Kind}, []any{id, store.IsDead, 1, pawl.KindEmit})
		}
		equal(r, r.stats("a").Acked, int64(3))
	})
}

// TestTimesThatAreOver: a point in time that has passed, or is too far away, makes no dead letter of finished work.
func TestTimesThatAreOver(t *testing.T) {
	bubble(t, func(r *rig) {
		var again atomic.Bool
		late := func() time.Duration { return time.Until(time.Now().Add(-time.Hour)) }
		r.append(numbered("a", 5)...)
		r.run(one(5, func(_ context.Context, d *pawl.Delivery) error {
			switch d.ID {
			case "a-1":
				d.Hold(late())
			case "a-2":
				d.Hold(2 * pawl.MaxDelay)
			case "a-3":
				m := pawl.Message{Topic: "b", Delay: late()}
				if err := pawl.CheckEmit(m); err != nil {
					return err
				}
				d.Emit(m)
			case "a-4":
				if !again.Swap(true) {
					return pawl.Release(late(), "not yet")
				}
			}
			return nil
		}))
		time.Sleep(time.Minute)
		equal(r, r.stats("a").Acked, int64(5))
		equal(r, r.stats("b").Waiting, int64(1))
	})
}

// TestPausesAreBounded: what a verdict may ask for is a day, whoever asks and in whatever way.
func TestPausesAreBounded(t *testing.T) {
	const ages = 20 * pawl.MaxDelay
	for name, handle := range map[string]func(*pawl.Delivery) error{
		"throttled":  func(*pawl.Delivery) error { return pawl.Throttled(errors.New("429"), ages) },
		"not before": func(*pawl.Delivery) error { return pawl.NotBefore(errors.New("503"), ages) },
		"release":    func(*pawl.Delivery) error { return pawl.Release(ages, "not yet") },
		"by hand":    func(*pawl.Delivery) error { return &pawl.ReleaseError{After: ages} },
		"hold":       func(d *pawl.Delivery) error { d.Hold(ages); return nil },
	} {
		bubble(t, func(r *rig) {
			var asked atomic.Int64
			r.store.settle = func(b store.Batch[store.Settlement]) error {
				asked.Store(int64(max(b.Items[0].After, b.Items[0].Hold)))
				return nil
			}
			r.append(pawl.Message{ID: "x", Topic: "a"})
			r.run(one(1, func(_ context.Context, d *pawl.Delivery) error { return handle(d) }))
			time.Sleep(time.Second)
			if d := time.Duration(asked.Load()); d != pawl.MaxPause {
				t.Errorf("%s: %v", name, d)
			}
		})
	}
}

// TestGivenBackAgainAndAgain: a handler that gives a message back without a pause does not spin.
func TestGivenBackAgainAndAgain(t *testing.T) {
	bubble(t, func(r *rig) {
		var calls atomic.Int64
		r.append(pawl.Message{ID: "x", Topic: "a"})
		r.run(one(4, func(context.Context, *pawl.Delivery) error {
			calls.Add(1)
			return pawl.Release(0, "not now")
		}))
		time.Sleep(time.Second)
		if n := calls.Load(); n < 4 || n > 12 {
			t.Errorf("%d calls in the first second", n)
		}
		time.Sleep(20 * time.Second)
		if n := calls.Load(); n > 40 {
			t.Errorf("%d calls in 21 s", n)
		}
	})
}

// An ignored failure counts as done, with what was emitted.
func TestIgnoredFailureCarriesOn(t *testing.T) {
	bubble(t, func(r *rig) {
		m, err := policy.NewMatrix(nil, policy.Rule{ID: "there", Match: policy.Match{Kind: "DataStore"},
			Pass: policy.Conflict})
		equal(r, err, nil)
		r.append(pawl.Message{Topic: "a", ID: "x"})
		c := one(1, func(_ context.Context, d *pawl.Delivery) error {
			d.Emit(pawl.Message{Topic: "b"})
			return pawl.OfKind("DataStore", policy.With(errBroken, policy.Conflict))
		})
		c.Policy = m
		r.run(c)
		time.Sleep(time.Second)
		r.gone("x")
		equal(r, r.stats("b").Waiting, int64(1))
	})
}

// A policy that panics, or that says nothing, does not stop the work.
func TestBadPolicyFallsBack(t *testing.T) {
	for name, p := range map[string]policy.Func{
		"panics":       func(policy.Attempt) policy.Decision { panic("oh") },
		"says nothing": func(policy.Attempt) policy.Decision { return policy.Decision{} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.append(pawl.Message{Topic: "a", ID: "x"})
				c := one(1, func(_ context.Context, d *pawl.Delivery) error {
					if d.Attempt == 1 {
						return errBroken
					}
					return nil
				})
				c.Policy = p
				r.run(c)
				time.Sleep(time.Minute)
				r.gone("x")
			})
		})
	}
}

// The policy learns what the topic and the error say.
func TestPolicyIsAsked(t *testing.T) {
	bubble(t, func(r *rig) {
		var asked diary
		c := one(1, func(context.Context, *pawl.Delivery) error { return errBroken })
		c.Topics[0].Event = policy.Event{Domain: "Engine", Type: "Download"}
		c.Policy = policy.Func(func(a policy.Attempt) policy.Decision {
			asked.add("%s %+v %d %v", a.Topic, a.Event, a.Number, errors.Is(a.Err, errBroken))
			return policy.Decision{Action: policy.Dead, Rule: "mine", Reason: "because"}
		})
		r.append(pawl.Message{Topic: "a", ID: "x"})
		r.run(c)
		time.Sleep(time.Second)
		equal(r, asked.list(), []string{"a {Domain:Engine Type:Download Phase:} 1 true"})
		rec := r.get("x")
		equal(r, []any{rec.State, rec.History[0].Rule, rec.History[0].Action},
			[]any{store.IsDead, "mine", "dead: because"})
	})
}

func TestMiddlewareWraps(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		wrap := func(name string) pawl.Middleware {
			return func(h pawl.Handler) pawl.Handler {
				return pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
					seen.add("%s", name)
					return h.Handle(ctx, d)
				})
			}
		}
		c := one(1, func(context.Context, *pawl.Delivery) error { seen.add("handler"); return nil })
		c.Middleware = []pawl.Middleware{wrap("outer"), wrap("inner")}
		r.append(pawl.Message{Topic: "a"})
		r.run(c)
		time.Sleep(time.Second)
		equal(r, seen.list(), []string{"outer", "inner", "handler"})
	})
}

// A host is left alone after a failure, too.
func TestHoldGoesWithEveryVerdict(t *testing.T) {
	for name, verdict := range map[string]error{
		"dead": pawl.Permanent(errBroken), "retry": errBroken, "release": pawl.Release(0, "later"),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				var at diary
				var again atomic.Bool
				start := time.Now()
				r.append(pawl.Message{Topic: "a", Key: []byte("host")}, pawl.Message{Topic: "a", Key: []byte("host")})
				r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
					at.add("%v", time.Since(start).Round(time.Minute))
					if again.Swap(true) {
						return nil
					}
					d.Hold(time.Minute)
					return verdict
				}))
				time.Sleep(2 * time.Minute)
				equal(r, at.list()[:2], []string{"0s", "1m0s"})
			})
		})
	}
}

// Whoever is asked to come back later for long is not dead of the first failure
// after that.
func TestThrottlingUsesUpNoAttempts(t *testing.T) {
	bubble(t, func(r *rig) {
		var seen diary
		var calls atomic.Int64
		r.append(pawl.Message{Topic: "a", ID: "m"})
		r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
			n := calls.Add(1)
			if n == 1 || n == 26 || n == 27 {
				seen.add("attempt %d, %d throttles for %v", d.Attempt, d.Throttles, d.ThrottledFor.Round(time.Minute))
			}
			switch {
			case n <= 25:
				return pawl.Throttled(errBroken, time.Minute)
			case n == 26:
				return errBroken
			}
			return nil
		}))
		time.Sleep(2 * time.Hour)
		equal(r, seen.list(), []string{"attempt 1, 0 throttles for 0s", "attempt 1, 25 throttles for 25m0s",
			"attempt 2, 0 throttles for 0s"})
		equal(r, r.stats("a").Acked, int64(1))
	})
}

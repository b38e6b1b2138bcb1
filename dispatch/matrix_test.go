package dispatch_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// failing is a topic whose handler always fails in one way, as the matrix knows it.
func failing(domain, typ string, kind pawl.Kind, facts policy.Facts) dispatch.Config {
	c := one(1, func(_ context.Context, d *pawl.Delivery) error {
		d.Emit(pawl.Message{Topic: "b"})
		return pawl.OfKind(kind, policy.With(errBroken, facts))
	})
	c.Topics[0].Event = policy.Event{Domain: domain, Type: typ}
	c.Rand = func() float64 { return 0.5 }
	return c
}

// witnessed runs a message through c, and returns what an observer and the log say.
func (r *rig) witnessed(c dispatch.Config) (*witness, *logged) {
	r.Helper()
	var w witness
	var text logged
	c.Observer, c.Logger = &w, text.logger()
	r.append(pawl.Message{Topic: "a", ID: "x"})
	r.run(c)
	time.Sleep(time.Hour)
	return &w, &text
}

func (w *witness) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n[what]
}

func TestDownloadIsRetriedThenDead(t *testing.T) {
	bubble(t, func(r *rig) {
		w, _ := r.witnessed(failing("Engine", "Download", "Download", 0))
		rec := r.get("x")
		equal(r, []any{rec.State, rec.Attempts, len(rec.History)}, []any{store.IsDead, 10, 10})
		equal(r, w.count("decided a Engine Download Failed Download Download/Download retry warn none"), 9)
		equal(r, w.count("decided a Engine Download Failed Download Download/Download dead warn none"), 1)
	})
}

func TestParserIsDeadAtOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		w, text := r.witnessed(failing("Engine", "Parser", "Parser", 0))
		rec := r.get("x")
		equal(r, []any{rec.State, rec.Attempts}, []any{store.IsDead, 1})
		equal(r, w.count("decided a Engine Parser Failed Parser Parser/Parser dead error none"), 1)
		equal(r, text.count("level=ERROR"), 1)
	})
}

func TestSystemErrorIsOnlyAlerted(t *testing.T) {
	bubble(t, func(r *rig) {
		w, text := r.witnessed(failing("System", "SystemError", "Service", 0))
		r.gone("x")
		s := r.stats("a")
		equal(r, []int64{s.Retried, s.Dead, s.Acked}, []int64{0, 0, 1})
		equal(r, w.count("decided a System SystemError Failed Service SystemError/Failed/any ignore error none"), 1)
		equal(r, []int{text.count("level=ERROR"), text.count("policy.action=ignore")}, []int{1, 1})
	})
}

func TestDataStoreConflictIsRecordedAndContinues(t *testing.T) {
	bubble(t, func(r *rig) {
		w, text := r.witnessed(failing("Engine", "DataStore", "DataStore", policy.Conflict))
		r.gone("x")
		equal(r, r.stats("b").Waiting, int64(1)) // the work goes on
		equal(r, []int64{r.stats("a").Retried, r.stats("a").Dead}, []int64{0, 0})
		equal(r, w.count("decided a Engine DataStore Failed DataStore DataStore/DataStore ignore error carry-on"), 1)
		equal(r, []int{text.count("conflict: recorded"), text.count("policy.degrade=carry-on")}, []int{1, 1})
	})
}

func TestRequestPublishWaitsItsBackoffThenDies(t *testing.T) {
	bubble(t, func(r *rig) {
		r.witnessed(failing("Engine", "RequestPublish", "Queue", 0))
		rec := r.get("x")
		equal(r, []any{rec.State, rec.Attempts}, []any{store.IsDead, 10})
		b := policy.Backoff{Shape: policy.Exponential, Base: 500 * time.Millisecond, Max: 30 * time.Second}
		for i, a := range rec.History[:9] {
			want := b.Delay(i+1, 0.5)
			equal(r, a.NextAt.Sub(a.EndedAt), want)
			if waited := rec.History[i+1].StartedAt.Sub(a.EndedAt); waited < want || waited > want+time.Second {
				r.Errorf("attempt %d came after %v, want %v", i+2, waited, want)
			}
		}
		equal(r, rec.History[9].NextAt.IsZero(), true)
	})
}

// What a decision was made from is kept with the attempt, so that it can be
// asked for again.
func TestInputsOfADecisionAreKept(t *testing.T) {
	bubble(t, func(r *rig) {
		c := failing("Engine", "Download", "RateLimit", policy.Timeout|policy.Connect)
		c.Topics[0].Handler = pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
			if d.Throttles == 2 {
				return pawl.Permanent(errBroken)
			}
			return pawl.OfKind("RateLimit", pawl.Throttled(policy.With(errBroken, policy.Timeout|policy.Connect),
				90*time.Second))
		})
		r.witnessed(c)
		h := r.get("x").History
		equal(r, len(h), 3)
		equal(r, h[1].Inputs, "attempt=1 class=throttled domain=Engine type=Download phase=Failed kind=RateLimit "+
			"facts=timeout|connect retry_after=1m30s throttles=2 throttled_for=1m30s")
		equal(r, h[2].Inputs, "attempt=1 class=permanent domain=Engine type=Download phase=Failed")
		equal(r, []any{h[1].Rule, h[1].NextAt.Sub(h[1].EndedAt)}, []any{"Download/RateLimit", 90 * time.Second})
	})
}

// How loud a failure is shows in the level of the log and in the label of the
// metric.
func TestAlertIsHeard(t *testing.T) {
	for alert, level := range map[policy.Alert]string{
		policy.Info: "level=INFO", policy.Warn: "level=WARN", policy.Error: "level=ERROR ",
		policy.Critical: "level=ERROR+4",
	} {
		t.Run(alert.String(), func(t *testing.T) {
			bubble(t, func(r *rig) {
				c := failing("", "", "Own", 0)
				c.Policy = policy.Func(func(policy.Attempt) policy.Decision {
					return policy.Decision{Action: policy.Dead, Alert: alert, Rule: "mine"}
				})
				w, text := r.witnessed(c)
				equal(r, text.count(level), 1)
				equal(r, w.count(fmt.Sprintf("decided a     mine dead %v none", alert)), 1)
			})
		})
	}
}

// What the work falls back to: without the item, or at the end of the task,
// nothing follows from the delivery.
func TestDegradeDecidesWhatFollows(t *testing.T) {
	for degrade, want := range map[policy.Degrade]int64{
		policy.NoDegrade: 1, policy.CarryOn: 1, policy.SkipItem: 0, policy.StopTask: 0,
	} {
		t.Run(degrade.String(), func(t *testing.T) {
			bubble(t, func(r *rig) {
				c := failing("", "", "Own", 0)
				c.Policy = policy.Func(func(policy.Attempt) policy.Decision {
					return policy.Decision{Action: policy.Ignore, Degrade: degrade, Rule: "mine"}
				})
				c.Topics = append(c.Topics, dispatch.Topic{Name: "b",
					Handler: pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error {
						return nil
					})})
				w, _ := r.witnessed(c)
				r.gone("x")
				equal(r, w.count("settled b ack"), int(want))
				equal(r, w.count("decided a     mine ignore info "+degrade.String()), 1)
			})
		})
	}
}

// A handler asks the one resolver about an item, and goes on without it. What is
// no item to leave out comes back as its error.
func TestHandlerAsksAboutAnItem(t *testing.T) {
	bubble(t, func(r *rig) {
		c := failing("Engine", "MiddlewareBefore", "", 0)
		c.Topics[0].Handler = pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
			for i, facts := range []policy.Facts{policy.BadInput, 0, policy.Shortage} {
				if i == 1 {
					d.Emit(pawl.Message{Topic: "b"}) // a good item
					continue
				}
				if i == 2 && d.Attempt > 1 {
					continue // there is enough of everything now
				}
				how, err := policy.Degraded(ctx, pawl.OfKind("DataMiddleware", policy.With(errBroken, facts)))
				if err != nil {
					return err
				}
				equal(r, how, policy.SkipItem)
			}
			return nil
		})
		w, text := r.witnessed(c)
		r.gone("x")
		equal(r, r.stats("b").Waiting, int64(1))
		rule := "decided a Engine MiddlewareBefore Failed DataMiddleware MiddlewareBefore/Failed/DataMiddleware "
		equal(r, w.count(rule+"ignore warn skip-item"), 2) // in both attempts
		equal(r, w.count(rule+"retry warn none"), 1)       // counted once, when it was returned
		equal(r, text.count("policy.degrade=skip-item"), 2)
		equal(r, []int{text.count("task_id=x"), text.count("retry.count=2")}, []int{3, 1})
	})
}

func TestBatchAsksAboutAnItem(t *testing.T) {
	bubble(t, func(r *rig) {
		c := failing("System", "SystemError", "", 0)
		c.Topics[0].Handler, c.Topics[0].Batch = nil, pawl.BatchHandlerFunc(func(ctx context.Context,
			ds []*pawl.Delivery) []error {
			_, err := policy.Degraded(ctx, errBroken)
			return []error{err}
		})
		w, text := r.witnessed(c)
		r.gone("x")
		equal(r, w.count("decided a System SystemError Failed  SystemError/Failed/any ignore error none"), 1)
		equal(r, text.count("queue_topic=a"), 1)
	})
}

// A policy is replaced while work waits for its repetition.
func TestLivePolicyIsReplaced(t *testing.T) {
	bubble(t, func(r *rig) {
		built, err := policy.NewMatrix(nil)
		equal(r, err, nil)
		stricter, err := policy.NewMatrixOf(nil, nil, policy.Override{Match: policy.Match{Kind: "Own"},
			MaxAttempts: new(3), Origin: "here"})
		equal(r, err, nil)
		live := policy.NewLive(built)
		c := failing("", "", "Own", 0)
		c.Policy, c.Topics[0].Retries.Attempts = live, 10
		handler := c.Topics[0].Handler
		c.Topics[0].Handler = pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
			if d.Attempt == 2 {
				live.Swap(stricter)
			}
			return handler.Handle(ctx, d)
		})
		r.witnessed(c)
		rec := r.get("x")
		equal(r, []any{rec.State, rec.Attempts, rec.History[0].Rule, rec.History[2].Rule},
			[]any{store.IsDead, 3, "default", "Own+override"})
		if !strings.HasPrefix(rec.History[0].Action, "retry: attempt 1 of 10") {
			r.Error(rec.History[0].Action)
		}
	})
}

// A handler that outlives its deadline is decided about once, not again when it
// returns after all.
func TestZombieIsDecidedOnce(t *testing.T) {
	bubble(t, func(r *rig) {
		var w witness
		r.append(pawl.Message{Topic: "a", ID: "x"})
		c := one(1, func(_ context.Context, d *pawl.Delivery) error {
			if d.Attempt == 1 {
				time.Sleep(10 * time.Minute)
				return errBroken
			}
			return nil
		})
		c.Observer = &w
		c.Topics[0].Settings = store.Declaration{Deadline: time.Minute}
		r.run(c)
		time.Sleep(time.Hour)
		r.gone("x")
		equal(r, w.count("decided a   Failed Deadline deadline retry error none"), 1)
		w.mu.Lock()
		defer w.mu.Unlock()
		for what, n := range w.n {
			if strings.HasPrefix(what, "decided") && n != 1 || strings.Contains(what, "default") {
				r.Errorf("%s: %d", what, n)
			}
		}
	})
}

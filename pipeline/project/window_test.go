package project

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/retryafter"
	"github.com/pawl-dev/pawl/store"
)

func doubling(level int) time.Duration {
	return policy.Backoff{Shape: policy.Exponential, Base: time.Second, Max: time.Minute}.Delay(level, 0.5)
}

// An index that takes three requests at once is found out, and few requests are refused from then on; when it takes
// more, that is found, too.
func TestWindowLearns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &window{}
		w.set(16)
		capacity := 3
		run := func(rounds int) (served, refused int) {
			for range rounds {
				began, n := time.Now(), int(w.allowed())
				time.Sleep(100 * time.Millisecond)
				for i := range n {
					if i < capacity {
						served++
						w.answered(began, 0, 100, doubling)
					} else {
						refused++
						w.refused(began, 0, doubling)
					}
				}
			}
			return served, refused
		}
		run(600)
		if served, refused := run(6000); served < 6000*2 || refused > served/30 {
			t.Errorf("%d served, %d refused", served, refused)
		}
		capacity = 12
		run(600)
		if served, refused := run(6000); served < 6000*7 || refused > served/30 {
			t.Errorf("of twelve, %d served, %d refused", served, refused)
		}
	})
}

// Where everything is refused, all pause for longer each time, and one request asks; the first that is answered does
// not undo that.
func TestWindowPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &window{}
		w.set(4)
		asked := 0
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			for range int(w.allowed()) {
				asked++
				w.refused(time.Now(), 0, doubling)
			}
		}
		if asked > 25 {
			t.Errorf("%d requests in ten minutes of refusals", asked)
		}
		time.Sleep(time.Minute)
		w.answered(time.Now(), 0, 1, doubling)
		if w.allowed() != 1 || w.strain < 2 {
			t.Errorf("after one answer: %+v", w)
		}
		if wait := w.refused(time.Now(), time.Hour, doubling); wait != time.Hour || w.allowed() != 0 {
			t.Errorf("a pause of %v, %v requests", wait, w.allowed())
		}
	})
}

// The waits of an item grow with its refusals, differ from those of its neighbours, and are never shorter than
// Retry-After, which is bounded.
func TestItemsWaitLonger(t *testing.T) {
	t.Parallel()
	matrix, err := policy.NewMatrix(nil, rules()...)
	if err != nil {
		t.Fatal(err)
	}
	random := 0.0
	p := &projection{live: limits{backoff: policy.Backoff{Shape: policy.Exponential, Base: time.Second, Max: time.Minute}},
		random: func() float64 { random += 0.01; return random }, figures: &figures{}}
	decide := func(n int, after string) time.Duration {
		res := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{}}
		res.Header.Set("Retry-After", after)
		d := (&topicPolicy{matrix, p}).Decide(policy.Attempt{Number: 1, Throttles: n,
			Err: classify(refusal(res, nil, "x"))})
		if d.Action != policy.Retry || !d.Throttled {
			t.Errorf("%+v", d)
		}
		return d.Delay
	}
	random = 0.5
	if few, many := decide(1, ""), decide(8, ""); few > 2*time.Second || many < 25*time.Second {
		t.Errorf("waits of %v, then %v", few, many)
	}
	if a, b := decide(1, "600"), decide(1, "600"); a < 10*time.Minute || a > 11*time.Minute || a == b {
		t.Errorf("waits of %v and %v", a, b)
	}
	if d := decide(1, "999999999"); d > time.Hour+time.Second {
		t.Errorf("a wait of %v", d)
	}
	date := time.Now().Add(1e5 * time.Hour).UTC().Format(http.TimeFormat)
	if d := decide(1, date); d > time.Hour+time.Second {
		t.Errorf("a wait of %v", d)
	}
	if d := (&topicPolicy{matrix, p}).Decide(policy.Attempt{Number: 1,
		Err: pawl.OfKind(kindTimeout, errors.New("x"))}); d.Throttled {
		t.Errorf("%+v", d)
	}
}

// TestStatusTellsPauses: of an operator, and of the index, which it asks for with Retry-After. The state was "running".
func TestStatusTellsPauses(t *testing.T) {
	onBoth(t, func(r *rig) {
		r.proxy.breaks(func(w http.ResponseWriter, req *http.Request, _ []byte) bool {
			if bulk(req) {
				w.Header().Set("Retry-After", "600")
				w.WriteHeader(http.StatusTooManyRequests)
			}
			return bulk(req)
		})
		daemon, _ := r.daemon()
		p, ctx := r.projection(), r.t.Context()
		r.put(1, "x", 1)
		why := ""
		is := func(state string) func() bool {
			return func() bool {
				s, err := p.ask(ctx)
				r.ok(err)
				why = s.Why
				return s.State == state
			}
		}
		r.until("the pause of the index is told", is("paused"))
		var until time.Time
		if _, text, ok := strings.Cut(why, "until "); ok {
			until, _ = time.Parse(time.RFC3339, strings.SplitN(text, ": ", 2)[0])
		}
		if left := time.Until(until); left < 9*time.Minute || left > 11*time.Minute || !strings.Contains(why, "HTTP 429") {
			r.t.Errorf("%s", why)
		}
		if h := daemon.Health(ctx); h.Degraded != "paused "+why || h.Unhealthy {
			r.t.Errorf("%+v", h)
		}
		r.proxy.breaks(nil)
		r.ok(resumeCommand(ctx, &pipeline.Invocation{Who: "ann",
			Audit: func(context.Context, store.Store, string, string, int, string) error { return nil }}, p))
		r.until("it is over", is(running))
		topics, err := p.topics()
		r.ok(err)
		r.ok(topics.Pause(ctx, p.topic, time.Hour, "bob", "storm"))
		r.until("the pause of bob is told", is("paused"))
		if !strings.HasPrefix(why, "by bob until 2") || !strings.HasSuffix(why, ": storm") {
			r.t.Errorf("%s", why)
		}
	})
}

// TestResumeEndsAPauseThatTheIndexAskedFor: a Retry-After of years is an hour, and resume ends that, too.
func TestResumeEndsAPauseThatTheIndexAskedFor(t *testing.T) {
	onBoth(t, func(r *rig) {
		p, ctx := r.projection(), r.t.Context()
		p.heedResume(ctx)
		p.window.refused(time.Now(), time.Hour, doubling)
		p.heedResume(ctx)
		if n := p.window.allowed(); n != 0 {
			r.t.Errorf("%v requests are allowed in the pause", n)
		}
		audit := func(context.Context, store.Store, string, string, int, string) error { return nil }
		for range 2 {
			if err := resumeCommand(ctx, &pipeline.Invocation{Who: "ann", Audit: audit}, p); err != nil {
				r.t.Error(err)
			}
			p.heedResume(ctx)
			if n := p.window.allowed(); n != 1 {
				r.t.Errorf("%v requests are allowed after resume, not 1", n)
			}
			p.window.refused(time.Now(), time.Hour, doubling)
		}
	})
}

// However an index asks for pauses, with 429 or 503, it gets them up to an hour; requests never follow each
// other at once, and never end.
func TestOddPausesOfTheIndex(t *testing.T) {
	for _, after := range []string{"", "0", "-5", "1e-9", "1.5", "7", "soon", "nan", "inf", "999999999", "soon|7", "7|soon",
		"Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2099 07:28:00 GMT"} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				p := fakeProjection(func(*http.Request, string) (*http.Response, error) {
					asked++
					h := http.Header{"Retry-After": strings.Split(after, "|")}
					return &http.Response{StatusCode: status, Header: h, Body: http.NoBody}, nil
				}, io.Discard)
				for end := time.Now().Add(3 * time.Hour); time.Now().Before(end); time.Sleep(time.Second) {
					if p.window.allowed() == 0 {
						continue
					}
					began := time.Now()
					_, whole := p.send(t.Context(), []action{{index: "i", id: "a", doc: []byte("{}")}}, 1<<20)
					least, _ := retryafter.Of(http.Header{"Retry-After": strings.Split(after, "|")})
					if f := p.failure(whole, began); f.after < max(least, 1) || f.after > retryafter.Most {
						t.Errorf("%d, %q: again after %v", status, after, f.after)
					}
				}
				if asked < 3 || asked > 1000 {
					t.Errorf("%d, %q: %d requests in three hours", status, after, asked)
				}
			})
		}
	}
}

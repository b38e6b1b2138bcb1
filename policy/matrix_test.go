package policy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

func half() float64 { return 0.5 }

func matrix(t *testing.T, rules ...policy.Rule) *policy.Matrix {
	t.Helper()
	for _, r := range pipelineRows() {
		if !slices.ContainsFunc(rules, func(own policy.Rule) bool { return own.Match == r.Match }) {
			rules = append(rules, r)
		}
	}
	m, err := policy.NewMatrix(half, rules...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

var errBroken = errors.New("broken")

func TestDefaultRule(t *testing.T) {
	m := matrix(t)
	for n := 1; n < 10; n++ {
		d := m.Decide(policy.Attempt{Topic: "a", Number: n, Err: errBroken})
		if d.Action != policy.Retry || d.Rule != "default" || d.Alert != policy.Warn || d.MaxAttempts != 10 {
			t.Fatalf("attempt %d: %+v", n, d)
		}
		if d.Delay < 500*time.Millisecond || d.Delay > 30*time.Second {
			t.Fatalf("attempt %d: delay %v", n, d.Delay)
		}
	}
	d := m.Decide(policy.Attempt{Number: 10, Err: errBroken})
	if d.Action != policy.Dead || !strings.Contains(d.Reason, "attempt 10 of 10") {
		t.Fatalf("the tenth: %+v", d)
	}
}

func TestPermanentIsDeadAtOnce(t *testing.T) {
	d := matrix(t).Decide(policy.Attempt{Number: 1, Err: fmt.Errorf("read: %w", pawl.Permanent(errBroken))})
	if d.Action != policy.Dead || !strings.HasPrefix(d.Reason, "permanent") {
		t.Fatalf("%+v", d)
	}
}

func TestThrottledWaitsAsAskedAndIsNotBounded(t *testing.T) {
	m := matrix(t)
	for _, c := range []struct {
		after, want time.Duration
	}{
		{90 * time.Second, 90 * time.Second},         // what the other side asks for is longer than the backoff
		{time.Millisecond, 15250 * time.Millisecond}, // shorter: the backoff, (500 ms + 30 s) / 2
		{20 * pawl.MaxDelay, pawl.MaxPause},
	} {
		d := m.Decide(policy.Attempt{Number: 5000, Err: pawl.Throttled(errBroken, c.after)})
		if d.Action != policy.Retry || d.Delay != c.want || d.MaxAttempts != 0 {
			t.Errorf("after %v: %+v, want %v", c.after, d, c.want)
		}
	}
}

func TestPanicIsRepeatedOnce(t *testing.T) {
	m, err := matrix(t), pawl.OfKind(pawl.KindPanic, errBroken)
	if d := m.Decide(policy.Attempt{Number: 1, Err: err}); d.Action != policy.Retry || d.Rule != "panic" {
		t.Errorf("first: %+v", d)
	}
	if d := m.Decide(policy.Attempt{Number: 2, Err: err}); d.Action != policy.Dead {
		t.Errorf("second: %+v", d)
	}
}

func TestKindsWithoutHope(t *testing.T) {
	for _, kind := range []pawl.Kind{pawl.KindDecode, pawl.KindEmit} {
		d := matrix(t).Decide(policy.Attempt{Number: 1, Err: pawl.OfKind(kind, errBroken)})
		if d.Action != policy.Dead || d.Alert != policy.Error {
			t.Errorf("%s: %+v", kind, d)
		}
	}
}

func TestLookupOrder(t *testing.T) {
	rule := func(id string, m policy.Match) policy.Rule { return policy.Rule{ID: id, Match: m} }
	m := matrix(t,
		rule("kind", policy.Match{Kind: "Download"}),
		rule("type", policy.Match{Domain: "Engine", Type: "Download", Kind: "Download"}),
		rule("phase", policy.Match{Domain: "Engine", Type: "Download", Phase: "Retry", Kind: "Download"}),
		rule("rest", policy.Match{}),
	)
	for _, c := range []struct {
		event policy.Event
		kind  pawl.Kind
		want  string
	}{
		{policy.Event{"Engine", "Download", "Retry"}, "Download", "phase"},
		{policy.Event{"Engine", "Download", ""}, "Download", "type"},
		{policy.Event{"Engine", "Parser", ""}, "Download", "kind"},
		{policy.Event{}, "Download", "kind"},
		{policy.Event{"Engine", "Download", "Retry"}, "Own", "rest"},
		{policy.Event{"Engine", "Download", "Retry"}, "", "rest"},
		{policy.Event{}, pawl.KindPanic, "panic"},
	} {
		d := m.Decide(policy.Attempt{Number: 1, Event: c.event, Err: pawl.OfKind(c.kind, errBroken)})
		if d.Rule != c.want {
			t.Errorf("%+v, kind %q: rule %q, want %q", c.event, c.kind, d.Rule, c.want)
		}
	}
	inner := policy.At(pawl.OfKind("Download", errBroken), policy.Event{"Engine", "Download", "Retry"})
	if d := m.Decide(policy.Attempt{Number: 1, Err: fmt.Errorf("crawl: %w", inner)}); d.Rule != "phase" {
		t.Errorf("stated by the error: rule %q", d.Rule)
	}
}

func TestFactsDecide(t *testing.T) {
	m := matrix(t,
		policy.Rule{ID: "store", Match: policy.Match{Kind: "DataStore"}, If: policy.Timeout | policy.Connect,
			Pass: policy.Conflict},
		policy.Rule{ID: "system", Match: policy.Match{Kind: "System"}, Repeat: policy.NotRepeated,
			DeadLetter: policy.Never},
	)
	for name, c := range map[string]struct {
		kind pawl.Kind
		err  error
		want policy.Action
	}{
		"a timeout is worth a repetition": {"DataStore", context.DeadlineExceeded, policy.Retry},
		"so is no connection":             {"DataStore", policy.With(errBroken, policy.Connect), policy.Retry},
		"a conflict is no failure":        {"DataStore", policy.With(errBroken, policy.Conflict), policy.Ignore},
		"anything else is given up":       {"DataStore", errBroken, policy.Dead},
		"never a dead letter":             {"System", errBroken, policy.Ignore},
		"not even a permanent one":        {"System", pawl.Permanent(errBroken), policy.Ignore},
		"a throttled one neither":         {"System", pawl.Throttled(errBroken, time.Second), policy.Ignore},
	} {
		if d := m.Decide(policy.Attempt{Number: 1, Err: pawl.OfKind(c.kind, c.err)}); d.Action != c.want {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestNewMatrixReportsEverythingAtOnce(t *testing.T) {
	_, err := policy.NewMatrix(nil,
		policy.Rule{ID: "many", MaxAttempts: 1001},
		policy.Rule{ID: "turned", Match: policy.Match{Kind: "A"}, Backoff: policy.Backoff{Base: 2, Max: 1}},
		policy.Rule{ID: "twice", Match: policy.Match{Kind: "A"}},
		policy.Rule{Match: policy.Match{Kind: "B"}},
		policy.Rule{ID: "lost", Match: policy.Match{Type: "Parser", Phase: "Failed"}},
		policy.Rule{ID: "torn", Match: policy.Match{Kind: "C"}, DeadLetter: policy.Always},
		policy.Rule{ID: "idle", Match: policy.Match{Kind: "D"}, Repeat: policy.NotRepeated, If: policy.Timeout},
	)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`"many": max attempts 1001`, `"turned": backoff`, `"twice": matches the same as rule "turned"`,
		`"": id is missing`,
		`"lost": a match without a kind`, `"lost": domain and type`, `"torn": dead letter "always"`,
		`"idle": a condition`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestBuiltinRulesAreValid(t *testing.T) {
	rules := matrix(t).Rules()
	if len(rules) != len(pipelineRows())+len(policy.Builtin())+1 {
		t.Fatalf("%d rules", len(rules))
	}
	for _, r := range rules {
		if err := r.Validate(); err != nil {
			t.Error(err)
		}
	}
}

// Whatever fails, and however often: the decision is complete, the same for the
// same random number, and nothing but a throttled failure goes on for ever.
func TestEveryDecisionIsComplete(t *testing.T) {
	kinds := []pawl.Kind{"", "Download", pawl.KindPanic, pawl.KindDecode, pawl.KindDeadline, pawl.KindEmit}
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.Float64Range(0, 0.999).Draw(t, "random")
		m, err := policy.NewMatrix(func() float64 { return r }, pipelineRows()...)
		if err != nil {
			t.Fatal(err)
		}
		cause := errBroken
		class := rapid.SampledFrom([]pawl.Class{pawl.ClassTransient, pawl.ClassPermanent, pawl.ClassThrottled}).Draw(t,
			"class")
		failure := &pawl.Failure{Err: cause, Class: class, Kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
		a := policy.Attempt{Number: rapid.IntRange(1, 3000).Draw(t, "attempt"), Err: failure}
		d := m.Decide(a)
		switch {
		case d != m.Decide(a):
			t.Fatal("decides differently the second time")
		case d.Action.String() == "none" || d.Rule == "" || d.Reason == "" || d.Alert == 0:
			t.Fatalf("incomplete: %+v", d)
		case d.Delay < 0 || d.Delay > pawl.MaxDelay || d.Action != policy.Retry && d.Delay != 0:
			t.Fatalf("delay: %+v", d)
		case class == pawl.ClassPermanent && d.Action == policy.Retry:
			t.Fatalf("repeats a permanent failure: %+v", d)
		case class != pawl.ClassThrottled && a.Number >= policy.DefaultAttempts && d.Action == policy.Retry:
			t.Fatalf("repeats without end: %+v", d)
		}
	})
}

// TestExplainNamesTheStepsTaken: those that found nothing, and the one that did.
func TestExplainNamesTheStepsTaken(t *testing.T) {
	d, rule, steps := matrix(t).Explain(policy.Attempt{
		Event: policy.Event{Domain: policy.Engine, Type: "TaskModel", Phase: "Retry"}, Number: 2,
		Err: pawl.OfKind("CacheService", errBroken),
	})
	if d.Rule != "CacheService" || rule.ID != d.Rule || len(steps) != 4 {
		t.Fatalf("rule %q, %q; steps %+v", d.Rule, rule.ID, steps)
	}
	for i, s := range steps {
		if last := i == len(steps)-1; last != (s.Rule != "") {
			t.Errorf("step %d: %+v", i, s)
		}
	}
}

// Throttling has a count and a bound of its own: attempts stand still.
func TestThrottledForTooLong(t *testing.T) {
	rule := policy.Default()
	rule.MaxThrottledAge = time.Hour
	m, err := policy.NewMatrix(nil, rule)
	if err != nil {
		t.Fatal(err)
	}
	a := policy.Attempt{Number: 3, Throttles: 40, ThrottledFor: 59 * time.Minute,
		Err: pawl.Throttled(errBroken, time.Second)}
	if d := m.Decide(a); d.Action != policy.Retry || !d.Throttled || d.Delay < time.Second {
		t.Fatalf("decision %+v", d)
	}
	a.ThrottledFor = time.Hour
	if d := m.Decide(a); d.Action != policy.Dead || d.Throttled ||
		!strings.Contains(d.Reason, "throttled for 1h0m0s, 40 times") {
		t.Fatalf("decision %+v", d)
	}
	a.Err = errBroken
	if d := m.Decide(a); d.Action != policy.Retry || d.Throttled {
		t.Fatalf("decision %+v about another failure", d)
	}
}

package policy_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

func with(t *testing.T, overrides ...policy.Override) *policy.Matrix {
	t.Helper()
	m, err := policy.NewMatrixOf(half, pipelineRows(), overrides...)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range m.Rules() {
		if err := r.Validate(); err != nil {
			t.Error(err)
		}
	}
	return m
}

func engine(typ, phase string, kind pawl.Kind) policy.Match {
	return policy.Match{Domain: policy.Engine, Type: typ, Phase: phase, Kind: kind}
}

func failed(m *policy.Matrix, match policy.Match, n int, facts policy.Facts) policy.Decision {
	return m.Decide(policy.Attempt{
		Event: policy.Event{Domain: match.Domain, Type: match.Type, Phase: match.Phase}, Number: n, Facts: facts,
		Err: pawl.OfKind(match.Kind, errBroken),
	})
}

func TestOverrideChangesEachPart(t *testing.T) {
	limit := engine("Download", "Failed", "RateLimit")
	store := engine("DataStore", "Failed", "Orm")
	m := with(t,
		policy.Override{
			Match: limit, MaxAttempts: new(3), Alert: new(policy.Critical), Origin: "pawl.yaml:7",
			Backoff: &policy.BackoffChange{Shape: new(policy.Linear), Base: new(time.Minute), Max: new(time.Hour)},
		},
		policy.Override{Match: engine("TaskModel", "", "Task"), Repeat: new(policy.NotRepeated)},
		policy.Override{Match: policy.Match{Kind: policy.KindSyncCodec}, DeadLetter: new(policy.WhenExhausted)},
		policy.Override{Match: store, DeadLetter: new(policy.Always)},
	)
	d := failed(m, limit, 2, 0)
	if want := 2 * time.Minute; d.Action != policy.Retry || d.Delay != want || d.Alert != policy.Critical ||
		d.Rule != "Download/Failed/RateLimit+override" {
		t.Errorf("%+v, want a delay of %v", d, want)
	}
	if d := failed(m, limit, 3, 0); d.Action != policy.Dead {
		t.Errorf("the third of three: %+v", d)
	}
	if d := failed(m, engine("Download", "Retry", "RateLimit"), 9, 0); d.Action != policy.Retry ||
		d.Rule != "Download/RateLimit" {
		t.Errorf("another phase: %+v", d)
	}
	if d := failed(m, engine("TaskModel", "Failed", "Task"), 1, 0); d.Action != policy.Dead {
		t.Errorf("retry off: %+v", d)
	}
	if d := failed(m, policy.Match{Kind: policy.KindSyncCodec}, 1, 0); d.Action != policy.Dead {
		t.Errorf("from never to exhausted: %+v", d)
	}
	if d := failed(m, store, 1, policy.Timeout); d.Action != policy.Dead {
		t.Errorf("always: %+v", d)
	}
	if d := failed(m, store, 1, policy.Conflict); d.Action != policy.Dead {
		t.Errorf("always, though it would have passed: %+v", d)
	}
	first := m.Rules()
	for _, r := range first {
		if r.Match == limit && r.Origin != "pawl.yaml:7" || r.Match == store && r.Origin != "override" {
			t.Errorf("%s comes from %q", r.ID, r.Origin)
		}
	}
}

// Each part has the origin of what says it, over several overrides; what a
// repetition needs goes when it goes.
// Overrides over those of another layer tighten them, leave the matrix below as it was, and weaken nothing of it.
func TestOverridesOverOverrides(t *testing.T) {
	kind := policy.Match{Kind: policy.KindRateLimit}
	file := with(t, policy.Override{Match: kind, Alert: new(policy.Error), Origin: "file"})
	over, err := file.With(policy.Override{Match: kind, MaxAttempts: new(3), Origin: "state"})
	if err != nil {
		t.Fatal(err)
	}
	alert := func(m *policy.Matrix) policy.Decision { return failed(m, kind, 3, 0) }
	if d := alert(over); d.Alert != policy.Error || d.Action != policy.Dead {
		t.Errorf("both layers count: %+v", d)
	}
	if d := alert(file); d.Action != policy.Retry {
		t.Errorf("the layer below has changed: %+v", d)
	}
	_, err = file.With(policy.Override{Match: kind, Alert: new(policy.Warn)})
	if e, ok := errors.AsType[*policy.OverrideError](err); !ok || e.Field != "alert" {
		t.Errorf("a weaker alert is refused with %v", err)
	}
}

func TestOverrideStatesTheOriginOfEachPart(t *testing.T) {
	m := with(t,
		policy.Override{Match: policy.Match{Kind: "Payment"}, MaxAttempts: new(4), Origin: "a:1"},
		policy.Override{Match: engine("Shop", "", "Payment"), Alert: new(policy.Critical), Origin: "a:2"},
		policy.Override{Match: engine("DataStore", "Retry", "Orm"), DeadLetter: new(policy.Always), Origin: "a:3"},
		policy.Override{Match: engine("Parser", "Failed", policy.AnyKind),
			Backoff: &policy.BackoffChange{Max: new(time.Hour)}, MaxAttempts: new(2), Origin: "a:4"},
	)
	const b = policy.BuiltIn
	for match, want := range map[policy.Match]policy.Origins{
		{Kind: "Payment"}: {Repeat: b, Backoff: b, MaxAttempts: "a:1", DeadLetter: b, Alert: b,
			Degrade: b, Condition: b},
		engine("Shop", "Failed", "Payment"): {Repeat: b, Backoff: b, MaxAttempts: "a:1", DeadLetter: b, Alert: "a:2",
			Degrade: b, Condition: b},
		engine("DataStore", "Retry", "Orm"): {Repeat: "a:3", Backoff: "a:3", MaxAttempts: "a:3", DeadLetter: "a:3",
			Alert: b, Degrade: b, Condition: "a:3"},
		engine("Parser", "Failed", "Own"): {Repeat: b, Backoff: "a:4", MaxAttempts: "a:4", DeadLetter: b, Alert: b,
			Degrade: b, Condition: b},
		// It never retries, so what is said about repetitions leaves it as it is.
		engine("Parser", "Failed", "Parser"): {Repeat: b, Backoff: b, MaxAttempts: b, DeadLetter: b, Alert: b,
			Degrade: b, Condition: b},
		engine("Parser", "Retry", "Parser"): {},
	} {
		if _, rule, _ := m.Explain(at(match)); rule.Origins != want {
			t.Errorf("%+v: %+v\nwant %+v", match, rule.Origins, want)
		}
	}
}

func TestOverrideMayNotWeaken(t *testing.T) {
	ms := func(n int) *time.Duration { return new(time.Duration(n) * time.Millisecond) }
	download, parser := engine("Download", "", "Download"), engine("Parser", "", "Parser")
	for name, c := range map[string]struct {
		o    policy.Override
		want string
	}{
		"retry on": {policy.Override{Match: parser, Repeat: new(policy.Repeated)},
			`retry: weaker than rule "Parser/Parser": retry on, was off`},
		"shorter base": {policy.Override{Match: download, Backoff: &policy.BackoffChange{Base: ms(100)}},
			`backoff.base: weaker than rule "Download/Download": backoff base 100ms, was 500ms`},
		"shorter max": {policy.Override{Match: download, Backoff: &policy.BackoffChange{Max: ms(10000)}},
			`backoff.max: weaker than rule "Download/Download": backoff max 10s, was 1m0s`},
		"slower growth": {policy.Override{Match: download, Backoff: &policy.BackoffChange{Shape: new(policy.Linear)}},
			`backoff.shape: weaker than rule "Download/Download": linear backoff waits up to 1.5s after attempt 2, was 2s`},
		"more attempts": {policy.Override{Match: download, MaxAttempts: new(11)},
			`max_attempts: weaker than rule "Download/Download": max attempts 11, was 10`},
		"less dead": {policy.Override{Match: parser, DeadLetter: new(policy.WhenExhausted)},
			`dead_letter: weaker than rule "Parser/Parser": dead letter exhausted, was always`},
		"never dead": {policy.Override{Match: download, DeadLetter: new(policy.Never)},
			`dead_letter: weaker than rule "Download/Download": dead letter never, was exhausted`},
		"quieter": {policy.Override{Match: parser, Alert: new(policy.Warn)},
			`alert: weaker than rule "Parser/Parser": alert warn, was error`},
		"own kind": {policy.Override{Match: policy.Match{Kind: "Payment"}, Alert: new(policy.Info)},
			`alert: weaker than rule "default": alert info, was warn`},
		"panic": {policy.Override{Match: policy.Match{Kind: pawl.KindPanic}, MaxAttempts: new(3)},
			`max_attempts: weaker than rule "panic": max attempts 3, was 2`},
		"idle backoff": {policy.Override{Match: parser, Backoff: &policy.BackoffChange{Max: ms(1)}},
			`backoff.max: has no effect: rule "Parser/Parser" never retries`},
		"own idle": {policy.Override{Match: download, DeadLetter: new(policy.Always), MaxAttempts: new(2)},
			`max_attempts: has no effect: this override retries nothing`},
		"base over max": {policy.Override{Match: download, Backoff: &policy.BackoffChange{Base: ms(90000)}},
			`backoff.base: base 1m30s is more than max 1m0s; raise max, too`},
		"contradiction": {policy.Override{Match: download, Repeat: new(policy.Repeated),
			DeadLetter: new(policy.Always)},
			`dead_letter: dead letter always contradicts a retry; leave one of them out`},
		"no kind": {policy.Override{Match: policy.Match{Domain: "Engine", Type: "Download"}},
			`match: a match without a kind is never looked up`},
		"no number": {policy.Override{Match: download, MaxAttempts: new(0)},
			`max_attempts: max attempts 0; it goes from 1 to 1000`},
		"no level": {policy.Override{Match: download, Alert: new(policy.Alert(9))},
			`alert: there is no such alert level: 9`},
		"any kind": {policy.Override{Match: engine("Download", "Failed", policy.AnyKind), Alert: new(policy.Warn)},
			`alert: weaker than rule "decode": alert warn, was error`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.NewMatrixOf(nil, pipelineRows(), c.o)
			if err == nil || err.Error() != "overrides[0]."+c.want {
				t.Errorf("%v\nwant overrides[0].%s", err, c.want)
			}
		})
	}
}

func TestOverridesReportEverythingInOrder(t *testing.T) {
	kind := func(k pawl.Kind) policy.Match { return policy.Match{Kind: k} }
	_, err := policy.NewMatrixOf(nil, pipelineRows(),
		policy.Override{Match: engine("Download", "", "Download"), MaxAttempts: new(50), Alert: new(policy.Info)},
		policy.Override{Match: kind("Payment"), Origin: "pawl.yaml:3"},
		policy.Override{Match: kind("Payment")},
		policy.Override{Alert: new(policy.Info)},
	)
	var got []string
	joined, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err)
	if !ok {
		t.Fatal(err)
	}
	for _, e := range joined.Unwrap() {
		o, ok := errors.AsType[*policy.OverrideError](e)
		if !ok {
			t.Fatal(e)
		}
		got = append(got, fmt.Sprintf("%d %s", o.Index, o.Field))
	}
	if want := []string{"0 max_attempts", "0 alert", "2 match", "3 alert"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q:\n%v", got, want, err)
	}
}

// A narrow override starts from the wide one that it would fall back to, in
// whatever order they are given; rows that are more telling than an override do
// not change.
func TestOverridesBuildOnEachOther(t *testing.T) {
	payment := policy.Override{Match: policy.Match{Kind: "Payment"}, MaxAttempts: new(4)}
	everything := policy.Override{Alert: new(policy.Error), MaxAttempts: new(5)}
	m := with(t, payment, everything)
	if d := failed(m, policy.Match{Kind: "Payment"}, 1, 0); d.Alert != policy.Error || d.MaxAttempts != 4 {
		t.Errorf("%+v", d)
	}
	if d := failed(m, policy.Match{Kind: "Other"}, 1, 0); d.Alert != policy.Error || d.MaxAttempts != 5 ||
		d.Rule != "default+override" {
		t.Errorf("%+v", d)
	}
	if d := failed(m, engine("Download", "Failed", "Download"), 1, 0); d.Alert != policy.Warn || d.MaxAttempts != 10 {
		t.Errorf("a row of its own changed: %+v", d)
	}
	payment.Alert = new(policy.Warn)
	_, err := policy.NewMatrixOf(nil, pipelineRows(), payment, everything)
	if err == nil || err.Error() != `overrides[0].alert: weaker than rule "default+override": alert warn, was error` {
		t.Error(err)
	}
}

// An override for any kind covers rows of kinds, which it would be found before.
func TestOverrideOfAnyKindKeepsWhatKindsHad(t *testing.T) {
	m := with(t, policy.Override{Match: engine("Download", "Failed", policy.AnyKind), Alert: new(policy.Critical),
		Origin: "here"})
	for kind, want := range map[pawl.Kind]struct {
		limit int
		rule  string
	}{
		"Download":       {10, "Download/Failed/Download+override"},
		pawl.KindPanic:   {2, "Download/Failed/Panic+override"},
		pawl.KindDecode:  {0, "Download/Failed/Decode+override"},
		"Own":            {10, "Download/Failed/any+override"},
		"":               {10, "Download/Failed/any+override"},
		"Parser":         {10, "Download/Failed/any+override"},
		"DynamicLibrary": {10, "Download/Failed/DynamicLibrary+override"},
	} {
		d := failed(m, engine("Download", "Failed", kind), 1, 0)
		if d.Alert != policy.Critical || d.MaxAttempts != want.limit || d.Rule != want.rule {
			t.Errorf("%s: %+v", kind, d)
		}
	}
	_, rule, _ := m.Explain(policy.Attempt{Event: policy.Event{Domain: "Engine", Type: "Download", Phase: "Failed"},
		Number: 1, Err: pawl.OfKind("Download", errBroken)})
	if rule.Backoff.Max != time.Minute || rule.Origin != "here" {
		t.Errorf("%+v", rule)
	}
}

// Whatever is overridden: nothing that was dead is repeated, nothing is quieter,
// nothing comes sooner.
func TestOverridesNeverWeaken(t *testing.T) {
	tried := 0
	rapid.Check(t, func(t *rapid.T) {
		r := rapid.Float64Range(0, 0.999).Draw(t, "random")
		random := func() float64 { return r }
		var m *policy.Matrix
		for range 20 { // about one in six is accepted
			overrides := rapid.SliceOfN(rapid.Custom(drawOverride), 1, 4).Draw(t, "overrides")
			var err error
			if m, err = policy.NewMatrixOf(random, pipelineRows(), overrides...); err == nil {
				break
			}
		}
		if m == nil {
			return
		}
		tried++
		plain, _ := policy.NewMatrix(random, pipelineRows()...)
		for _, match := range somewhere {
			a := policy.Attempt{
				Event:  policy.Event{Domain: match.Domain, Type: match.Type, Phase: match.Phase},
				Number: rapid.IntRange(1, 12).Draw(t, "attempt"),
				Facts:  policy.Facts(rapid.IntRange(0, 63).Draw(t, "facts")), Err: pawl.OfKind(match.Kind, errBroken),
			}
			was, is := plain.Decide(a), m.Decide(a)
			switch {
			case is.Alert < was.Alert:
				t.Fatalf("%+v: quieter\n%+v\n%+v", match, was, is)
			case was.Action == policy.Dead && is.Action != policy.Dead,
				was.Action == policy.Retry && is.Action == policy.Ignore:
				t.Fatalf("%+v: weaker\n%+v\n%+v", match, was, is)
			case was.Action == policy.Retry && is.Action == policy.Retry && is.Delay < was.Delay:
				t.Fatalf("%+v: sooner\n%+v\n%+v", match, was, is)
			}
		}
	})
	if tried == 0 {
		t.Fatal("no override was accepted")
	}
}

var somewhere = []policy.Match{
	{}, {Kind: "Own"}, {Kind: pawl.KindPanic}, {Kind: policy.KindSyncCodec}, engine("Download", "Failed", ""),
	engine("Download", "Failed", "Download"), engine("Download", "Retry", "Panic"),
	engine("DataStore", "Failed", "Orm"),
	engine("Parser", "Failed", "Parser"), {Domain: policy.System, Type: "SystemError", Phase: "Failed", Kind: "Queue"},
}

func drawOverride(t *rapid.T) policy.Override {
	o := policy.Override{Match: rapid.SampledFrom(append(somewhere, engine("Download", "", "Download"),
		engine("Download", "Failed", policy.AnyKind))).Draw(t, "match")}
	maybe := func() bool { return rapid.IntRange(0, 2).Draw(t, "given") == 0 }
	if maybe() {
		o.Repeat = new(rapid.SampledFrom([]policy.Repeat{policy.Repeated, policy.NotRepeated}).Draw(t, "repeat"))
	}
	if maybe() {
		o.MaxAttempts = new(rapid.IntRange(1, 12).Draw(t, "attempts"))
	}
	if maybe() {
		o.DeadLetter = new(rapid.SampledFrom([]policy.DeadLetter{policy.Never, policy.WhenExhausted,
			policy.Always}).Draw(t, "dead"))
	}
	if maybe() {
		o.Alert = new(rapid.SampledFrom([]policy.Alert{policy.Info, policy.Warn, policy.Error, policy.Critical}).Draw(t,
			"alert"))
	}
	if maybe() {
		o.Backoff = &policy.BackoffChange{
			Shape: new(rapid.SampledFrom([]policy.Shape{policy.Exponential, policy.Linear}).Draw(t, "shape")),
			Base:  new(time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "base"))),
			Max:   new(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "max"))),
		}
	}
	return o
}

package policy_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// row is a cell as a line: where it is, and what decides there.
func row(c *policy.Cell) string {
	return fmt.Sprintf("%s/%s/%s %s", c.Match.Type, c.Match.Phase, c.Match.Kind, c.Rule.ID)
}

// rowsOf are the cells of a type.
func rowsOf(m *policy.Matrix, typ string) []string {
	var rows []string
	for _, c := range m.Cells() {
		if c.Match.Type == typ {
			rows = append(rows, row(&c))
		}
	}
	return rows
}

// A row that an override adds is listed where it decides, and the one that it
// hides is not.
func TestCellsNameWhatDecides(t *testing.T) {
	critical := func(match policy.Match) policy.Override {
		return policy.Override{Match: match, Alert: new(policy.Critical)}
	}
	for name, c := range map[string]struct {
		match policy.Match
		want  []string // of the type
	}{
		"a phase of a row without one": {engine("Download", "Failed", "RateLimit"), []string{
			"Download/Failed/Download Download/Download", "Download/Retry/Download Download/Download",
			"Download/Failed/Proxy Download/Proxy", "Download/Retry/Proxy Download/Proxy",
			"Download/Failed/RateLimit Download/Failed/RateLimit+override",
			"Download/Retry/RateLimit Download/RateLimit",
		}},
		"a row without a phase over one that has it": {engine("RequestMiddleware", "", "Request"), []string{
			"RequestMiddleware/Failed/Request RequestMiddleware/Failed/Request",
			"RequestMiddleware/Retry/Request RequestMiddleware/Request+override",
			"RequestMiddleware/Failed/ProcessorChain RequestMiddleware/Failed/ProcessorChain",
		}},
		"every kind of a phase": {engine("Download", "Retry", policy.AnyKind), []string{
			"Download/Failed/Download Download/Download", "Download/Retry/Download Download/Retry/Download+override",
			"Download/Failed/Proxy Download/Proxy", "Download/Retry/Proxy Download/Retry/Proxy+override",
			"Download/Failed/RateLimit Download/RateLimit",
			"Download/Retry/RateLimit Download/Retry/RateLimit+override",
			"Download/Retry/CacheService Download/Retry/CacheService+override",
			"Download/Retry/DynamicLibrary Download/Retry/DynamicLibrary+override",
			"Download/Retry/Service Download/Retry/Service+override",
			"Download/Retry/Command Download/Retry/Command+override",
			"Download/Retry/SyncCodec Download/Retry/SyncCodec+override",
			"Download/Retry/Decode Download/Retry/Decode+override",
			"Download/Retry/Emit Download/Retry/Emit+override",
			"Download/Retry/Rejected Download/Retry/Rejected+override",
			"Download/Retry/Panic Download/Retry/Panic+override",
			"Download/Retry/Deadline Download/Retry/Deadline+override",
			"Download/Retry/any Download/Retry/any+override",
		}},
		"a phase that is never decided": {engine("Parser", "Completed", "Parser"), []string{
			"Parser/Failed/Parser Parser/Parser", "Parser/Retry/Parser Parser/Parser",
		}},
		"one that is, of health alone": {policy.Match{Domain: policy.System, Type: "SystemHealth",
			Kind: "Own"}, []string{
			"SystemHealth/Completed/CacheService SystemHealth/Completed/CacheService",
			"SystemHealth/Completed/Service SystemHealth/Completed/Service",
			"SystemHealth/Completed/Queue SystemHealth/Completed/Queue",
			"SystemHealth/Retry/Own SystemHealth/Own+override", "SystemHealth/Completed/Own SystemHealth/Own+override",
			"SystemHealth/Failed/any SystemHealth/Failed/any",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rowsOf(with(t, critical(c.match)), c.match.Type); !slices.Equal(got, c.want) {
				t.Errorf("%q\nwant %q", got, c.want)
			}
		})
	}
}

// What overrides add comes after what was there: types, then kinds, then the
// default.
func TestCellsKeepTheOrderOfTheMatrix(t *testing.T) {
	plain, cells := matrix(t).Cells(), with(t,
		policy.Override{Match: policy.Match{Kind: "Payment"}, Alert: new(policy.Error)},
		policy.Override{Match: engine("Shop", "", "Payment"), Alert: new(policy.Critical)},
		policy.Override{Match: policy.Match{Kind: pawl.KindPanic}, Alert: new(policy.Critical)},
	).Cells()
	at := func(match policy.Match) int {
		return slices.IndexFunc(cells, func(c policy.Cell) bool { return c.Match == match })
	}
	if len(cells) != len(plain)+3 {
		t.Errorf("%d cells, of which %d were there", len(cells), len(plain))
	}
	order := []int{
		at(policy.Match{Domain: policy.System, Type: "SystemHealth", Phase: "Failed", Kind: policy.AnyKind}),
		at(engine("Shop", "Failed", "Payment")), at(engine("Shop", "Retry", "Payment")),
		at(policy.Match{Kind: "CacheService"}),
		at(policy.Match{Kind: pawl.KindPanic}), at(policy.Match{Kind: "Payment"}), at(policy.Match{}),
	}
	if !slices.IsSorted(order) || order[0] < 0 {
		t.Errorf("%v", order)
	}
	for i, c := range plain[:order[1]] {
		if c.Match != cells[i].Match {
			t.Errorf("%d is %+v, was %+v", i, cells[i].Match, c.Match)
		}
	}
}

// Without overrides, the cells are the rules in their order, one for each phase.
func TestCellsOfTheBuiltinMatrix(t *testing.T) {
	m, err := policy.NewMatrix(half)
	if err != nil {
		t.Fatal(err)
	}
	var want []policy.Match
	for _, r := range m.Rules() {
		phases := []string{r.Match.Phase}
		if r.Match.Type != "" && r.Match.Phase == "" {
			phases = []string{policy.Failed, policy.Again}
		}
		for _, phase := range phases {
			r.Match.Phase = phase
			want = append(want, r.Match)
		}
	}
	var got []policy.Match
	for _, c := range m.Cells() {
		got = append(got, c.Match)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// Whatever is overridden: every cell is listed once, with the rule that Explain
// finds there; and wherever a failure is decided, that rule is listed.
func TestCellsAreWhatExplainSays(t *testing.T) {
	tried := 0
	rapid.Check(t, func(t *rapid.T) {
		m := drawMatrix(t)
		if m == nil {
			return
		}
		tried++
		listed, rules := map[policy.Match]bool{}, map[string]bool{}
		for _, c := range m.Cells() {
			if listed[c.Match] {
				t.Fatalf("%+v is listed twice", c.Match)
			}
			listed[c.Match], rules[c.Rule.ID] = true, true
			if d, rule, _ := m.Explain(at(c.Match)); rule != c.Rule || d.Rule != c.Rule.ID {
				t.Fatalf("%s, but rule %q decides", row(&c), d.Rule)
			}
		}
		for _, match := range slices.Concat(anywhere(), somewhere) {
			if match.Phase == "" && match.Type != "" || match.Phase == "Completed" && match.Type != "SystemHealth" {
				continue
			}
			if d := m.Decide(at(match)); !rules[d.Rule] {
				t.Fatalf("rule %q decides %+v, and is not listed", d.Rule, match)
			}
		}
	})
	if tried == 0 {
		t.Fatal("no override was accepted")
	}
}

func at(m policy.Match) policy.Attempt {
	return policy.Attempt{Event: policy.Event{Domain: m.Domain, Type: m.Type, Phase: m.Phase}, Number: 1,
		Err: pawl.OfKind(m.Kind, errBroken)}
}

// anywhere are matches of all sorts: of rows that are there and of such that are
// not, and of some that are never decided.
func anywhere() []policy.Match {
	all := []policy.Match{{}, {Kind: "Own"}, {Kind: pawl.KindPanic}, {Kind: "CacheService"}}
	for _, event := range []policy.Match{
		{Domain: policy.Engine, Type: "Download"}, {Domain: policy.Engine, Type: "RequestMiddleware"},
		{Domain: policy.Engine, Type: "Own"},
		{Domain: policy.System, Type: "SystemError"}, {Domain: policy.System, Type: "SystemHealth"},
	} {
		for _, phase := range []string{"", policy.Failed, policy.Again, "Completed"} {
			for _, kind := range []pawl.Kind{"Download", "RateLimit", "Request", "Queue", "Own", pawl.KindPanic,
				policy.AnyKind} {
				if phase != "" || kind != policy.AnyKind {
					all = append(all, policy.Match{Domain: event.Domain, Type: event.Type, Phase: phase, Kind: kind})
				}
			}
		}
	}
	return all
}

// drawMatrix draws overrides; nil if none was accepted.
func drawMatrix(t *rapid.T) *policy.Matrix {
	louder := rapid.Custom(func(t *rapid.T) policy.Override {
		return policy.Override{Match: rapid.SampledFrom(anywhere()).Draw(t, "match"), Alert: new(policy.Critical)}
	})
	for range 20 {
		overrides := rapid.SliceOfN(rapid.OneOf(louder, rapid.Custom(drawOverride)), 1, 5).Draw(t, "overrides")
		if m, err := policy.NewMatrixOf(nil, pipelineRows(), overrides...); err == nil {
			return m
		}
	}
	return nil
}

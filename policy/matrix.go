package policy

import (
	"math/rand/v2"
	"slices"

	"github.com/pawl-dev/pawl"
)

// Matrix is a [Policy] made of rules. It does not change after [NewMatrix]; it
// is safe for concurrent use.
type Matrix struct {
	rules  map[Match]*Rule
	order  []*Rule
	places places // before overrides
	random func() float64
}

// NewMatrix returns the policy of rules. A rule with an empty [Match] is the
// default; without one, [Default] is. Of what [Builtin] decides, rules replace
// what they match exactly. The jitter is drawn from random, which returns at
// least 0 and less than 1 and is called concurrently; nil is math/rand/v2.
// Every problem is reported at once.
func NewMatrix(random func() float64, rules ...Rule) (*Matrix, error) {
	if random == nil {
		random = rand.Float64
	}
	m := &Matrix{rules: map[Match]*Rule{}, random: random}
	var faults pawl.Faults
	for _, r := range rules {
		faults.Add(r.Validate())
		if first := m.rules[r.Match]; first != nil {
			faults.If(true, "rule %q: matches the same as rule %q", r.ID, first.ID)
		}
		m.add(r)
	}
	for _, r := range append(Builtin(), Default()) {
		if m.rules[r.Match] == nil {
			m.add(r)
		}
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	m.places = placesOf(m.order)
	return m, nil
}

func (m *Matrix) add(r Rule) {
	m.rules[r.Match] = &r
	m.order = append(m.order, &r)
}

// Builtin returns the rules that every matrix has: for what the process around the
// pipelines does, and for the kinds that the runtime and its handlers report. Those of
// a pipeline come from the pipeline.
func Builtin() []Rule { return append(systemRules(), kindRules()...) }

// Decide implements [Policy].
func (m *Matrix) Decide(a Attempt) Decision {
	f, e, facts := a.describe()
	d := m.lookup(e, f.Kind).decide(&a, f, facts, m.random)
	d.Event, d.Kind, d.Facts = e, f.Kind, facts
	return d
}

// lookup finds the rule for a failure, from the most specific key to the least.
func (m *Matrix) lookup(e Event, kind pawl.Kind) *Rule {
	for _, key := range keys(e, kind) {
		if r := m.rules[key]; r != nil {
			return r
		}
	}
	return m.rules[Match{}]
}

// keys are those that a failure is looked up by, in turn; the default is not
// among them.
func keys(e Event, kind pawl.Kind) []Match {
	if e.Type == "" {
		return slices.DeleteFunc([]Match{{Kind: kind}}, func(m Match) bool { return m == Match{} })
	}
	whole := Match{e.Domain, e.Type, e.Phase, AnyKind}
	if kind == "" {
		return []Match{whole}
	}
	return []Match{{e.Domain, e.Type, e.Phase, kind}, whole, {e.Domain, e.Type, "", kind}, {Kind: kind}}
}

// Step is a look-up on the way to a decision.
type Step struct {
	Match Match
	Rule  string // the id of the rule that was found; empty: none
}

// Explain is Decide, with the rule that decided and the look-ups that led to it.
func (m *Matrix) Explain(a Attempt) (Decision, Rule, []Step) {
	d := m.Decide(a)
	var steps []Step
	for _, key := range append(keys(d.Event, d.Kind), Match{}) {
		if r := m.rules[key]; r != nil {
			return d, *r, append(steps, Step{key, r.ID})
		}
		steps = append(steps, Step{Match: key})
	}
	return d, Rule{}, steps
}

// Rules returns all rules: the given ones in their order, then the builtin ones
// that they left, then the default. [Matrix.Cells] says what each of them decides.
func (m *Matrix) Rules() []Rule {
	rules := make([]Rule, len(m.order))
	for i, r := range m.order {
		rules[i] = *r
	}
	return rules
}

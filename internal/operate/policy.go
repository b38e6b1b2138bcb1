package operate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// OfPipeline begins the origin of rows of the policy that a pipeline brings.
const OfPipeline = "pipeline "

// PolicyRule is a row of the matrix, as JSON.
type PolicyRule struct {
	Domain      string         `json:"domain"`
	Type        string         `json:"type"`
	Phase       string         `json:"phase"`
	Kind        string         `json:"kind"`
	Retry       bool           `json:"retry"`
	Backoff     *PolicyBackoff `json:"backoff"` // null: nothing is repeated
	MaxAttempts int            `json:"max_attempts"`
	DeadLetter  string         `json:"dead_letter"`
	Alert       string         `json:"alert"`
	Degrade     string         `json:"degrade"`
	Condition   string         `json:"condition,omitempty"`
	Rule        string         `json:"rule"`
	Origin      string         `json:"origin"`
	Origins     *PolicyOrigins `json:"origins,omitempty"` // absent: no override had a say
}

// PolicyOrigins is where each part of a row comes from, as JSON.
type PolicyOrigins struct {
	Retry       string `json:"retry"`
	Backoff     string `json:"backoff"`
	MaxAttempts string `json:"max_attempts"`
	DeadLetter  string `json:"dead_letter"`
	Alert       string `json:"alert"`
	Degrade     string `json:"degrade"`
	Condition   string `json:"condition"`
}

// PolicyBackoff is the growth of delays, as JSON.
type PolicyBackoff struct {
	Shape string  `json:"shape"`
	Base  float64 `json:"base_seconds"`
	Max   float64 `json:"max_seconds"`
}

// PolicyRules returns the rows of a matrix, the most specific first.
func PolicyRules(m *policy.Matrix) []PolicyRule {
	all := []PolicyRule{}
	for _, c := range m.Cells() {
		if _, ok := byStore(c.Match); ok {
			continue // an override that names the kind has no say
		}
		all = append(all, formCell(c.Match, &c.Rule))
	}
	return all
}

// formCell is a cell of the matrix and the rule that decides there.
func formCell(m policy.Match, r *policy.Rule) PolicyRule {
	info := PolicyRule{
		Domain: m.Domain, Type: m.Type, Phase: m.Phase, Kind: string(m.Kind),
		Retry: r.Repeat == policy.Repeated, MaxAttempts: 1, DeadLetter: r.DeadLetter.String(), Alert: r.Alert.String(),
		Degrade: r.Degrade.String(), Condition: condition(r), Rule: r.ID, Origin: cmp.Or(r.Origin, policy.BuiltIn),
	}
	if info.Retry {
		info.MaxAttempts = cmp.Or(r.MaxAttempts, policy.DefaultAttempts)
		info.Backoff = &PolicyBackoff{r.Backoff.Shape.String(), r.Backoff.Base.Seconds(), r.Backoff.Max.Seconds()}
	}
	if o := r.Origins; o != (policy.Origins{}) {
		info.Origins = &PolicyOrigins{o.Repeat, o.Backoff, o.MaxAttempts, o.DeadLetter, o.Alert, o.Degrade, o.Condition}
	}
	return info
}

// condition says in words which facts change what the row decides.
func condition(r *policy.Rule) string {
	var parts []string
	if r.If != 0 {
		parts = append(parts, "retry only after "+either(r.If))
	}
	if r.Unless != 0 {
		parts = append(parts, either(r.Unless)+" ends it")
	}
	if r.Pass != 0 {
		part := either(r.Pass) + " is recorded, and the work goes on"
		if r.Degrade == policy.SkipItem {
			part += " without the item"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "; ")
}

func either(f policy.Facts) string { return strings.ReplaceAll(f.String(), "|", " or ") }

// Whence is where the row comes from, and what of it: "pawl.yaml:7 (alert)". What
// no override changed is not told, and neither is what goes with a repetition.
func (i PolicyRule) Whence() string {
	o := i.Origins
	if o == nil {
		return i.Origin
	}
	parts := map[string][]string{}
	froms := []string{i.Origin}
	add := func(from, part string) {
		if from == policy.BuiltIn || strings.HasPrefix(from, OfPipeline) {
			return
		}
		if parts[from] = append(parts[from], part); !slices.Contains(froms, from) {
			froms = append(froms, from)
		}
	}
	add(o.Retry, "retry")
	if i.Retry {
		add(o.Backoff, "backoff")
		add(o.MaxAttempts, "attempts")
		add(o.Condition, "condition")
	}
	add(o.DeadLetter, "dead letter")
	add(o.Alert, "alert")
	for n, from := range froms {
		if len(parts[from]) > 0 {
			froms[n] = fmt.Sprintf("%s (%s)", from, strings.Join(parts[from], ", "))
		}
	}
	return strings.Join(froms, ", ")
}

// Decision is what the policy says about a failure, as JSON.
type Decision struct {
	Action     string         `json:"action"` // retry, dead or ignore
	Reason     string         `json:"reason"`
	Delay      *DecisionDelay `json:"delay,omitempty"` // of a retry
	DeadLetter string         `json:"dead_letter"`
	Alert      string         `json:"alert"`
	Degrade    string         `json:"degrade"`
	Rule       PolicyRule     `json:"rule"`
	Steps      []DecisionStep `json:"steps"`
	Notes      []string       `json:"notes,omitempty"` // what is odd about the question
}

// DecisionDelay is between what the delay is drawn.
type DecisionDelay struct {
	Least float64 `json:"least_seconds"`
	Most  float64 `json:"most_seconds"`
}

// DecisionStep is a look-up.
type DecisionStep struct {
	Key  string `json:"key"`
	Rule string `json:"rule,omitempty"` // absent: there is none
}

// Failure describes a failure that the policy is asked about.
type Failure struct {
	policy.Event

	Kind    pawl.Kind
	Attempt int // from 1
	Facts   policy.Facts
	// Permanent: its error says that retrying does not help.
	Permanent bool
	// After, if not nil: the other side asked to wait this long.
	After *time.Duration
}

// attempt is the failure as the policy sees it.
func (f *Failure) attempt() policy.Attempt {
	err := errors.New("a failure")
	if f.Permanent {
		err = pawl.Permanent(err)
	}
	if f.After != nil {
		err = pawl.Throttled(err, *f.After)
	}
	a := policy.Attempt{Event: f.Event, Number: f.Attempt, Facts: f.Facts, Err: pawl.OfKind(f.Kind, err)}
	if a.Event.Type != "" {
		a.Event.Domain = cmp.Or(a.Event.Domain, policy.DomainOf(a.Event.Type))
	}
	return a
}

// ExplainFailure returns what would become of a failure, by whom it may be decided. Near finds the word that was
// probably meant, for a note; it may be nil.
func ExplainFailure(m *policy.Matrix, f *Failure, near func(word string, known []string) string) Decision {
	a := f.attempt()
	d, rule, steps := m.Explain(a)
	if r, ok := byStore(policy.Match{Domain: d.Event.Domain, Kind: d.Kind}); ok {
		return r.decision(string(d.Kind))
	}
	info := formDecision(a, d, &rule, steps)
	info.Notes = unknown(m, &d, near)
	return info
}

func formDecision(a policy.Attempt, d policy.Decision, r *policy.Rule, steps []policy.Step) Decision {
	at := r.Match
	if at.Type != "" {
		at.Phase = d.Event.Phase
	}
	rule := formCell(at, r)
	info := Decision{
		Action: d.Action.String(), Reason: d.Reason, DeadLetter: r.DeadLetter.String(), Alert: d.Alert.String(),
		Degrade: d.Degrade.String(), Rule: rule,
	}
	if d.Action == policy.Retry {
		asked := pawl.Describe(a.Err).After
		info.Delay = &DecisionDelay{
			max(r.Backoff.Delay(a.Number, 0), asked).Seconds(), max(r.Backoff.Ceiling(a.Number), asked).Seconds(),
		}
		// The reason names one delay, of those that might be drawn.
		info.Reason = fmt.Sprintf("attempt %d of %d", a.Number, d.MaxAttempts)
		if d.MaxAttempts == 0 {
			info.Reason = fmt.Sprintf("throttled, attempt %d: not bounded", a.Number)
		}
	}
	for _, s := range steps {
		info.Steps = append(info.Steps, DecisionStep{keyText(s.Match), s.Rule})
	}
	return info
}

// keyText is a key of the matrix in words.
func keyText(m policy.Match) string {
	switch {
	case m == policy.Match{}:
		return "default"
	case m.Type == "" && m.Domain == "":
		return "kind " + string(m.Kind)
	}
	parts := []string{m.Domain, m.Type, m.Phase, string(m.Kind)}
	for i, p := range parts {
		if p == "" {
			parts[i] = "*"
		}
	}
	return strings.Join(parts, "/")
}

// storeRule describes dead letters that are made by a store, or by a person, without
// the policy.
type storeRule struct{ name, why string }

var storeRules = map[pawl.Kind]storeRule{
	pawl.KindRescue: {"rescue",
		fmt.Sprintf(
			"a message whose worker died or hung is handed out again, from the %dth time on alone; after %d rescues alone it is a dead letter",
			store.SolitaryAfter, store.LonelyRescues)},
	pawl.KindParked: {"parked",
		"its topic parks: what waits behind a dead letter of its key becomes one, too, without an attempt"},
	pawl.KindSkipped: {"skipped", "somebody skipped it: it becomes a dead letter, from where it can be replayed"},
}

// byStore reports whether failures of m are decided by a store, not by a row of the
// policy.
func byStore(m policy.Match) (storeRule, bool) {
	r, ok := storeRules[m.Kind]
	return r, ok && m.Domain != policy.System
}

// decision is the decision about such a failure.
func (r storeRule) decision(kind string) Decision {
	return Decision{
		Action: policy.Dead.String(), Reason: r.why, DeadLetter: policy.Always.String(),
		Alert: policy.Info.String(), Degrade: policy.NoDegrade.String(), Steps: []DecisionStep{},
		Rule: PolicyRule{
			Kind: kind, DeadLetter: policy.Always.String(), Alert: policy.Info.String(),
			Degrade: policy.NoDegrade.String(),
			Rule:    r.name, Origin: "the store",
		},
		Notes: []string{"the store decides this, not the policy: no row and no override changes it"},
	}
}

// unknown says which parts of a failure are not known to Pawl: the decision then comes
// from a more general row. Programs may use names of their own, so this is not an
// error.
func unknown(m *policy.Matrix, d *policy.Decision, near func(string, []string) string) []string {
	var domains, types, kinds []string
	for _, r := range append(m.Rules(), policy.Builtin()...) {
		domains, types, kinds = append(domains, r.Match.Domain), append(types, r.Match.Type),
			append(kinds, string(r.Match.Kind))
	}
	for kind := range storeRules {
		kinds = append(kinds, string(kind))
	}
	var notes []string
	for _, part := range []struct {
		what, name string
		known      []string
	}{{"domain", d.Event.Domain, domains}, {"type", d.Event.Type, types}, {"kind", string(d.Kind), kinds}} {
		if slices.Contains(append(part.known, ""), part.name) {
			continue
		}
		note := fmt.Sprintf("no row is about %s %q", part.what, part.name)
		if d.Rule == policy.Default().ID {
			note += ", so the default rule decides"
		}
		slices.Sort(part.known)
		if near != nil {
			if name := near(part.name, part.known); name != "" {
				note += fmt.Sprintf("; did you mean %s?", name)
			}
		}
		notes = append(notes, note)
	}
	return notes
}

// StoreRule returns the name of the rule by which the store makes dead letters of a kind; empty: the policy decides.
func StoreRule(kind pawl.Kind) string { return storeRules[kind].name }

// FactNames are the names of the facts about a failure that a rule may ask for.
func FactNames() []string { return strings.Split((^policy.Facts(0)).String(), "|") }

// Fact is the fact of a name; 0: there is none.
func Fact(name string) policy.Facts {
	if i := slices.Index(FactNames(), name); i >= 0 {
		return 1 << i
	}
	return 0
}

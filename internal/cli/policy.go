package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) policy() *cobra.Command {
	return noun("policy", "Show how failures are handled, and why",
		`Shows the policy: one matrix of rules decides for every failure whether the work
is repeated and after how long, whether it becomes a dead letter, and how loud
that is. Nothing else decides that, except for messages that never reach a handler:
those of kind Rescue, Parked and Skipped, which the store makes dead letters.

A failure is looked up by domain, type, phase and kind; then by domain, type and
kind; then by kind; then there is the default.`,
		s.policyLs(), s.policyExplain())
}

// ruleInfo is a row of the matrix, as JSON.
type ruleInfo struct {
	Domain      string       `json:"domain"`
	Type        string       `json:"type"`
	Phase       string       `json:"phase"`
	Kind        string       `json:"kind"`
	Retry       bool         `json:"retry"`
	Backoff     *backoffInfo `json:"backoff"` // null: nothing is repeated
	MaxAttempts int          `json:"max_attempts"`
	DeadLetter  string       `json:"dead_letter"`
	Alert       string       `json:"alert"`
	Degrade     string       `json:"degrade"`
	Condition   string       `json:"condition,omitempty"`
	Rule        string       `json:"rule"`
	Origin      string       `json:"origin"`
	Origins     *originsInfo `json:"origins,omitempty"` // absent: no override had a say
}

// originsInfo is where each part of a row comes from, as JSON.
type originsInfo struct {
	Retry       string `json:"retry"`
	Backoff     string `json:"backoff"`
	MaxAttempts string `json:"max_attempts"`
	DeadLetter  string `json:"dead_letter"`
	Alert       string `json:"alert"`
	Degrade     string `json:"degrade"`
	Condition   string `json:"condition"`
}

type backoffInfo struct {
	Shape string  `json:"shape"`
	Base  float64 `json:"base_seconds"`
	Max   float64 `json:"max_seconds"`
}

func (s *session) policyLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the matrix", Args: count(0, 0, "nothing"),
		Long: `Lists the effective matrix, the most specific rows first, each with the rule that
decides. A row without domain, type and phase is about a kind wherever it occurs; the
last row is the default.`,
		Example: `  pawl policy ls
  pawl policy ls -o json | jq '.[] | select(.alert == "error")'`,
		RunE: func(*cobra.Command, []string) error {
			m, err := s.matrix()
			if err != nil {
				return err
			}
			l := s.list("TYPE", "PHASE", "KIND", "RETRY", "BACKOFF", ">ATTEMPTS", "DEAD LETTER", "ALERT",
				"CONDITION", "ORIGIN")
			for _, info := range rulesOf(m) {
				l.add(info, info.cells()...)
			}
			return l.end("")
		},
	}
}

// rulesOf are the rows of a matrix.
func rulesOf(m *policy.Matrix) []ruleInfo {
	all := []ruleInfo{}
	for _, c := range m.Cells() {
		if _, ok := byStore(c.Match); ok {
			continue // an override that names the kind has no say
		}
		all = append(all, formCell(c.Match, &c.Rule))
	}
	return all
}

// formCell is a cell of the matrix and the rule that decides there.
func formCell(m policy.Match, r *policy.Rule) ruleInfo {
	info := ruleInfo{
		Domain: m.Domain, Type: m.Type, Phase: m.Phase, Kind: string(m.Kind),
		Retry: r.Repeat == policy.Repeated, MaxAttempts: 1, DeadLetter: r.DeadLetter.String(), Alert: r.Alert.String(),
		Degrade: r.Degrade.String(), Condition: condition(r), Rule: r.ID, Origin: cmp.Or(r.Origin, policy.BuiltIn),
	}
	if info.Retry {
		info.MaxAttempts = cmp.Or(r.MaxAttempts, policy.DefaultAttempts)
		info.Backoff = &backoffInfo{r.Backoff.Shape.String(), r.Backoff.Base.Seconds(), r.Backoff.Max.Seconds()}
	}
	if o := r.Origins; o != (policy.Origins{}) {
		info.Origins = &originsInfo{o.Repeat, o.Backoff, o.MaxAttempts, o.DeadLetter, o.Alert, o.Degrade, o.Condition}
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

// origin is where the row comes from, and what of it: "pawl.yaml:7 (alert)". What
// no override changed is not told, and neither is what goes with a repetition.
func (i *ruleInfo) origin() string {
	o := i.Origins
	if o == nil {
		return i.Origin
	}
	parts := map[string][]string{}
	froms := []string{i.Origin}
	add := func(from, part string) {
		if from == policy.BuiltIn || strings.HasPrefix(from, serve.OfPipeline) {
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

func (i *ruleInfo) cells() []string {
	retry, backoff := "no", "-"
	if i.Retry {
		retry = "yes"
		backoff = fmt.Sprintf("%s %v to %v", i.Backoff.Shape, asDuration(i.Backoff.Base), asDuration(i.Backoff.Max))
	}
	return []string{cmp.Or(i.Type, "-"), cmp.Or(i.Phase, "-"), cmp.Or(i.Kind, "default"), retry, backoff,
		number(i.MaxAttempts), i.DeadLetter, i.Alert, cmp.Or(i.Condition, "-"), i.origin()}
}

// decisionInfo is what the policy says about a failure, as JSON.
type decisionInfo struct {
	Action     string       `json:"action"` // retry, dead or ignore
	Reason     string       `json:"reason"`
	Delay      *delayInfo   `json:"delay,omitempty"` // of a retry
	DeadLetter string       `json:"dead_letter"`
	Alert      string       `json:"alert"`
	Degrade    string       `json:"degrade"`
	Rule       ruleInfo     `json:"rule"`
	Steps      []lookupInfo `json:"steps"`
	Notes      []string     `json:"notes,omitempty"` // what is odd about the question
}

// delayInfo is between what the delay is drawn.
type delayInfo struct {
	Least float64 `json:"least_seconds"`
	Most  float64 `json:"most_seconds"`
}

// lookupInfo is a look-up.
type lookupInfo struct {
	Key  string `json:"key"`
	Rule string `json:"rule,omitempty"` // absent: there is none
}

// failureFlags describe a failure.
type failureFlags struct {
	event     policy.Event
	kind      string
	attempt   int
	facts     map[policy.Facts]*bool
	permanent bool
	after     string
}

func (s *session) policyExplain() *cobra.Command {
	f := failureFlags{facts: map[policy.Facts]*bool{}}
	c := &cobra.Command{
		Use: "explain", Short: "Show what would be decided about a failure, and by which rule",
		Args: count(0, 0, "flags only"),
		Long: `Says what the policy decides about a failure: the decision, the rule it comes from,
and the lookups that led to it. Nothing is opened or changed.`,
		Example: `  pawl policy explain --type Download --phase Failed --kind RateLimit
  pawl policy explain --type DataStore --kind Orm --conflict
  pawl policy explain --kind Panic --attempt 2 -o json`,
		RunE: func(*cobra.Command, []string) error {
			a, err := f.failure()
			if err != nil {
				return err
			}
			m, err := s.matrix()
			if err != nil {
				return err
			}
			if a.Event.Type != "" {
				a.Event.Domain = cmp.Or(a.Event.Domain, policy.DomainOf(a.Event.Type))
			}
			info := explainFailure(m, a)
			return s.one(info, func(w io.Writer) { printDecision(w, &info) })
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.event.Domain, "domain", "", "domain of the event: Engine or System (default: that of the type)")
	fl.StringVar(&f.event.Type, "type", "", "`TYPE` of the event: Download, Parser …")
	fl.StringVar(&f.event.Phase, "phase", policy.Failed, "phase: Failed, Retry or Completed")
	fl.StringVar(&f.kind, "kind", "", "`KIND` of the error")
	fl.IntVar(&f.attempt, "attempt", 1, "which attempt has failed, from 1")
	fl.BoolVar(&f.permanent, "permanent", false, "the error says that retrying does not help")
	fl.StringVar(&f.after, "retry-after", "", "the other side asked to wait this long: a duration")
	for _, fact := range []struct {
		name, text string
		fact       policy.Facts
	}{
		{"timeout", "it took too long", policy.Timeout},
		{"connect", "the other side could not be reached", policy.Connect},
		{"conflict", "it exists already", policy.Conflict},
		{"bad-input", "the input is wrong", policy.BadInput},
		{"shortage", "a resource is exhausted", policy.Shortage},
		{"limit", "a limit on the whole task is reached", policy.Limit},
	} {
		f.facts[fact.fact] = fl.Bool(fact.name, false, fact.text)
	}
	return c
}

var errExplained = errors.New("a failure")

// failure is the attempt that the flags describe.
func (f *failureFlags) failure() (policy.Attempt, error) {
	a := policy.Attempt{Event: f.event, Number: f.attempt, Err: errExplained}
	if !config.Decided(f.event.Type, f.event.Phase) {
		return a, usage("use --phase Failed or --phase Retry; --type SystemHealth also has Completed",
			"there are no decisions about phase %q", f.event.Phase)
	}
	if f.attempt < 1 {
		return a, usage("such as --attempt 1", "--attempt is %d; attempts count from 1", f.attempt)
	}
	if f.permanent && f.after != "" {
		return a, usage("give one of them", "--permanent and --retry-after contradict each other")
	}
	if f.permanent {
		a.Err = pawl.Permanent(a.Err)
	}
	if f.after != "" {
		after, err := config.ParseDuration(f.after)
		if err != nil {
			return a, usage("such as --retry-after 30s", "--retry-after: %w", err)
		}
		a.Err = pawl.Throttled(a.Err, after)
	}
	a.Err = pawl.OfKind(pawl.Kind(f.kind), a.Err)
	for fact, given := range f.facts {
		if *given {
			a.Facts |= fact
		}
	}
	return a, nil
}

// explainFailure says what would become of a failure, by whom it may be decided.
func explainFailure(m *policy.Matrix, a policy.Attempt) decisionInfo {
	d, rule, steps := m.Explain(a)
	if r, ok := byStore(policy.Match{Domain: d.Event.Domain, Kind: d.Kind}); ok {
		return r.decision(string(d.Kind))
	}
	info := formDecision(a, d, &rule, steps)
	info.Notes = unknown(m, &d)
	return info
}

func formDecision(a policy.Attempt, d policy.Decision, r *policy.Rule, steps []policy.Step) decisionInfo {
	at := r.Match
	if at.Type != "" {
		at.Phase = d.Event.Phase
	}
	rule := formCell(at, r)
	info := decisionInfo{
		Action: d.Action.String(), Reason: d.Reason, DeadLetter: r.DeadLetter.String(), Alert: d.Alert.String(),
		Degrade: d.Degrade.String(), Rule: rule,
	}
	if d.Action == policy.Retry {
		asked := pawl.Describe(a.Err).After
		info.Delay = &delayInfo{
			max(r.Backoff.Delay(a.Number, 0), asked).Seconds(), max(r.Backoff.Ceiling(a.Number), asked).Seconds(),
		}
		// The reason names one delay, of those that might be drawn.
		info.Reason = fmt.Sprintf("attempt %d of %d", a.Number, d.MaxAttempts)
		if d.MaxAttempts == 0 {
			info.Reason = fmt.Sprintf("throttled, attempt %d: not bounded", a.Number)
		}
	}
	for _, s := range steps {
		info.Steps = append(info.Steps, lookupInfo{keyText(s.Match), s.Rule})
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

func printDecision(w io.Writer, info *decisionInfo) {
	line := func(name, text string) { _, _ = fmt.Fprintf(w, "%-13s%s\n", name, text) }
	action := info.Action
	if info.Delay != nil {
		least, most := asDuration(info.Delay.Least), asDuration(info.Delay.Most)
		action += fmt.Sprintf(" after %v", least.Round(time.Millisecond))
		if most > least {
			action += fmt.Sprintf(" to %v", most.Round(time.Millisecond))
		}
	}
	line("decision", action)
	line("because", info.Reason)
	line("dead letter", info.DeadLetter)
	line("alert", info.Alert)
	line("degrade", info.Degrade)
	rule := info.Rule.Rule
	if info.Rule.Condition != "" {
		rule += " (" + info.Rule.Condition + ")"
	}
	line("rule", rule+", "+info.Rule.origin())
	for i, s := range info.Steps {
		name, found := "", "no rule"
		if i == 0 {
			name = "looked up"
		}
		if s.Rule != "" {
			found = "rule " + s.Rule
		}
		line(name, s.Key+": "+found)
	}
	for _, note := range info.Notes {
		line("note", note)
	}
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
func (r storeRule) decision(kind string) decisionInfo {
	return decisionInfo{
		Action: policy.Dead.String(), Reason: r.why, DeadLetter: policy.Always.String(),
		Alert: policy.Info.String(), Degrade: policy.NoDegrade.String(), Steps: []lookupInfo{},
		Rule: ruleInfo{
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
func unknown(m *policy.Matrix, d *policy.Decision) []string {
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
		if near := config.Near(part.name, part.known); near != "" {
			note += fmt.Sprintf("; did you mean %s?", near)
		}
		notes = append(notes, note)
	}
	return notes
}

package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/policy"
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
			for _, c := range m.Cells() {
				if _, ok := byStore(c.Match); ok {
					continue // an override that names the kind has no say
				}
				info := formCell(c.Match, &c.Rule)
				l.add(info, info.cells()...)
			}
			return l.end("")
		},
	}
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

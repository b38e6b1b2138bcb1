package cli

import (
	"cmp"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/cli/flag"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/policy"
)

func (s *session) policy() *cobra.Command {
	return noun("policy", "Show how failures are handled, and why",
		`Shows the policy: one matrix of rules decides for every failure whether the work
is repeated and after how long, whether it becomes a dead letter, and how loud
that is. Nothing else decides that, except for messages that never reach a handler:
those of kind Rescue, Parked and Skipped, which the store makes dead letters.

A failure is looked up by domain, type, phase and kind; then by domain, type and
kind; then by kind; then there is the default.

Overrides are those of pawl.yaml, and over them those that operators set in the store
for all running processes, under a name of their own and with the keys of one in the
file: `+"`pawl state put policy NAME '{\"match\":{\"kind\":\"RateLimit\"},\"alert\":\"error\"}'`"+`.`,
		s.policyLs(), s.policyExplain())
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
			m, err := s.effective()
			if err != nil {
				return err
			}
			l := s.list("TYPE", "PHASE", "KIND", "RETRY", "BACKOFF", ">ATTEMPTS", "DEAD", "ALERT",
				"WHEN", "ORIGIN")
			for _, info := range operate.PolicyRules(m) {
				l.add(info, ruleCells(&info)...)
			}
			return l.end("")
		},
	}
}

// ruleCells are the columns of a row.
func ruleCells(i *operate.PolicyRule) []string {
	retry, backoff := "no", "-"
	if i.Retry {
		retry = "yes"
		backoff = fmt.Sprintf("%s %v to %v", i.Backoff.Shape, asDuration(i.Backoff.Base), asDuration(i.Backoff.Max))
	}
	return []string{cmp.Or(i.Type, "-"), cmp.Or(i.Phase, "-"), cmp.Or(i.Kind, "default"), retry, backoff,
		number(i.MaxAttempts), i.DeadLetter, i.Alert, cmp.Or(i.Condition, "-"), i.Whence()}
}

// failureFlags describe a failure.
type failureFlags struct {
	event     policy.Event
	kind      string
	attempt   int
	facts     map[policy.Facts]*bool
	permanent bool
	after     flag.Duration // negative is not given
}

func (s *session) policyExplain() *cobra.Command {
	f := failureFlags{after: -1, facts: map[policy.Facts]*bool{}}
	c := &cobra.Command{
		Use: "explain", Short: "Show what would be decided about a failure, and by which rule",
		Args: count(0, 0, "flags only"),
		Long: `Says what the policy decides about a failure: the decision, the rule it comes from,
and the lookups that led to it. Nothing is changed.`,
		Example: `  pawl policy explain --type Download --phase Failed --kind RateLimit
  pawl policy explain --type DataStore --kind Orm --conflict
  pawl policy explain --kind Panic --attempt 2 -o json`,
		RunE: func(*cobra.Command, []string) error {
			a, err := f.failure()
			if err != nil {
				return err
			}
			m, err := s.effective()
			if err != nil {
				return err
			}
			info := operate.ExplainFailure(m, a, config.Near)
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
	fl.Var(&f.after, "retry-after", "the other side asked to wait this long")
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

// failure is what the flags describe.
func (f *failureFlags) failure() (*operate.Failure, error) {
	a := &operate.Failure{Event: f.event, Kind: pawl.Kind(f.kind), Attempt: f.attempt, Permanent: f.permanent}
	if !config.Decided(f.event.Type, f.event.Phase) {
		return a, usage("use --phase Failed or --phase Retry; --type SystemHealth also has Completed",
			"there are no decisions about phase %q", f.event.Phase)
	}
	if f.attempt < 1 {
		return a, usage("such as --attempt 1", "--attempt is %d; attempts count from 1", f.attempt)
	}
	if f.permanent && f.after >= 0 {
		return a, usage("give one of them", "--permanent and --retry-after contradict each other")
	}
	if f.after >= 0 {
		a.After = new(time.Duration(f.after))
	}
	for fact, given := range f.facts {
		if *given {
			a.Facts |= fact
		}
	}
	return a, nil
}

func printDecision(w io.Writer, info *operate.Decision) {
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
	line("rule", rule+", "+info.Rule.Whence())
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

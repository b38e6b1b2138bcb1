package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/policy"
)

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
}

type backoffInfo struct {
	Shape string  `json:"shape"`
	Base  float64 `json:"base_seconds"`
	Max   float64 `json:"max_seconds"`
}

func (s *session) policyLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the matrix", Args: count(0, 0, "nothing"),
		Long: `Lists the effective matrix, the most telling rows first. A row without domain,
type and phase is about a kind wherever it comes up; the last one is the default.`,
		Example: `  pawl policy ls
  pawl policy ls -o json | jq '.[] | select(.alert == "error")'`,
		RunE: func(*cobra.Command, []string) error {
			m, err := policy.NewMatrix(nil)
			if err != nil {
				return cannot(err, "read the policy")
			}
			l := s.list("TYPE", "PHASE", "KIND", "RETRY", "BACKOFF", ">ATTEMPTS", "DEAD LETTER", "ALERT", "CONDITION", "ORIGIN")
			for _, r := range m.Rules() {
				for _, info := range formRule(&r) {
					if err := l.add(info, info.cells()...); err != nil {
						return err
					}
				}
			}
			return l.end("")
		},
	}
}

// formRule is a rule as rows: a row for each phase that it is about.
func formRule(r *policy.Rule) []ruleInfo {
	info := ruleInfo{
		Domain: r.Match.Domain, Type: r.Match.Type, Phase: r.Match.Phase, Kind: string(r.Match.Kind),
		Retry: r.Repeat == policy.Repeated, MaxAttempts: 1, DeadLetter: r.DeadLetter.String(), Alert: r.Alert.String(),
		Degrade: r.Degrade.String(), Condition: condition(r), Rule: r.ID, Origin: originOf(r),
	}
	if info.Retry {
		info.MaxAttempts = r.MaxAttempts
		if info.MaxAttempts == 0 {
			info.MaxAttempts = policy.DefaultAttempts
		}
		info.Backoff = &backoffInfo{r.Backoff.Shape.String(), r.Backoff.Base.Seconds(), r.Backoff.Max.Seconds()}
	}
	if info.Type == "" || info.Phase != "" {
		return []ruleInfo{info}
	}
	again := info
	info.Phase, again.Phase = policy.Failed, policy.Again
	return []ruleInfo{info, again}
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

func originOf(r *policy.Rule) string {
	if r.Origin == "" {
		return "built in"
	}
	return r.Origin
}

func (i *ruleInfo) cells() []string {
	retry, backoff := "no", "-"
	if i.Retry {
		retry = "yes"
		backoff = fmt.Sprintf("%s %v to %v", i.Backoff.Shape, asDuration(i.Backoff.Base), asDuration(i.Backoff.Max))
	}
	kind := i.Kind
	if kind == "" {
		kind = "default"
	}
	return []string{dash(i.Type), dash(i.Phase), kind, retry, backoff, strconv.Itoa(i.MaxAttempts), i.DeadLetter, i.Alert, dash(i.Condition), i.Origin}
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func asDuration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

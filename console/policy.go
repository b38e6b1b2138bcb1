package console

import (
	"net/url"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/policy"
)

func policyPages() []page {
	return []page{{path: "/policy", file: "policy", nav: "Policy", key: "y", show: policyPage}}
}

type policyData struct {
	Rules                []operate.PolicyRule
	Types, Phases, Kinds []string // that rules name
	Facts                []string
	Asked                bool
	Decision             operate.Decision
	Why                  string // there is no decision
}

func policyPage(v *view) (any, error) {
	d := policyData{Phases: []string{policy.Failed, policy.Again}, Facts: operate.FactNames()}
	if _, err := v.get(&d.Rules, nil, "/policy"); err != nil {
		return nil, err
	}
	for i := range d.Rules {
		r := &d.Rules[i]
		d.Types, d.Kinds = append(d.Types, r.Type), append(d.Kinds, r.Kind)
	}
	d.Kinds = append(d.Kinds, string(pawl.KindRescue), string(pawl.KindParked), string(pawl.KindSkipped))
	d.Types, d.Kinds = unique(d.Types), unique(d.Kinds)
	q := v.query("type", "phase", "kind", "attempt", "permanent", "retry_after")
	if facts := v.r.URL.Query()["fact"]; len(facts) > 0 {
		q.Set("facts", strings.Join(facts, ","))
	}
	if d.Asked = v.r.URL.Query().Has("kind"); d.Asked {
		d.ask(v, q)
	}
	return d, nil
}

func (d *policyData) ask(v *view, q url.Values) {
	if _, err := v.get(&d.Decision, q, "/policy/explain"); err != nil {
		d.Why = err.Error()
	}
}

// unique are the texts that are not empty, sorted, each once.
func unique(texts []string) []string {
	slices.Sort(texts)
	return slices.DeleteFunc(slices.Compact(texts), func(s string) bool { return s == "" })
}

// Has reports whether a filter of the address has a value, among others.
func (v *view) Has(name, value string) bool { return slices.Contains(v.r.URL.Query()[name], value) }

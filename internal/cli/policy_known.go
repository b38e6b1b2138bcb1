package cli

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

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

// byStore tells whether failures of m are decided by a store, not by a row of the
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
		if near := config.Meant(part.name, part.known); near != "" {
			note += fmt.Sprintf("; did you mean %s?", near)
		}
		notes = append(notes, note)
	}
	return notes
}

package config

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// names are those that the policy has rows about, and kinds that the runtime reports.
// There may be others: programs name events and kinds of their own.
type names struct {
	all     map[string][]string // by the key of a match
	domains map[string]string   // of the types
}

func knownNames(rules []policy.Rule) names {
	n := names{
		all: map[string][]string{
			"domain": {policy.Engine, policy.System}, "type": nil,
			"kind": {string(pawl.KindRescue), string(pawl.KindParked), string(pawl.KindSkipped)},
		},
		domains: map[string]string{},
	}
	for _, r := range append(policy.Builtin(), rules...) {
		n.add("type", r.Match.Type)
		n.add("kind", string(r.Match.Kind))
		n.domains[r.Match.Type] = r.Match.Domain
	}
	return n
}

func (n *names) add(key, name string) {
	if name != "" && !slices.Contains(n.all[key], name) {
		n.all[key] = append(n.all[key], name)
	}
}

// Decided tells whether the policy is asked about a phase of a type: what failed, and
// what the rows of the type name besides.
func Decided(typ, phase string) bool {
	return phase == policy.Failed || phase == policy.Again ||
		slices.ContainsFunc(policy.Builtin(), func(r policy.Rule) bool {
			return typ != "" && r.Match.Type == typ && r.Match.Phase == phase
		})
}

// checkNames finds names that are nearly those of others. Such an override would
// silently never apply.
func (w *walker) checkNames(m *node) {
	known := knownNames(w.rules())
	for _, key := range []string{"domain", "type", "kind"} {
		name, ok := find[string](m, key)
		if !ok || name == "" || slices.Contains(known.all[key], name) {
			continue
		}
		if i := slices.IndexFunc(known.all[key], func(k string) bool { return strings.EqualFold(k, name) }); i >= 0 {
			w.refuse(m.at(key), "did you mean "+known.all[key][i]+"?", "there is no %s %s: capitals count", key,
				quote(m.at(key).shown))
			continue
		}
		if k := slip(name, known.all[key]); k != "" {
			w.warn(m.at(key), "did you mean "+k+"? a name of your own is right", "Pawl knows no %s %s", key,
				quote(m.at(key).shown))
		}
	}
}

// checkMeeting finds what is known, and never comes together.
func (w *walker) checkMeeting(m *node) {
	typ := get[string](m, "type")
	belongs, known := knownNames(w.rules()).domains[typ]
	if typ == "" || !known {
		return
	}
	other := map[string]string{policy.Engine: policy.System, policy.System: policy.Engine}[belongs]
	if domain, _ := find[string](m, "domain"); domain == other {
		w.refuse(m.at("domain"), "write "+belongs+", or leave it out", "%s is a type of domain %s, not of %s", typ,
			belongs, other)
	}
	if phase, ok := find[string](m, "phase"); ok && !Decided(typ, phase) {
		w.refuse(m.at("phase"), "use Failed or Retry", "nothing is decided about %s when it is %s", typ, phase)
	}
}

// slip returns the name of which word is a slip of the hand. It is stricter than
// [Near]: a short name, or two letters, make a name of its own soon.
func slip(word string, known []string) string {
	best, least := "", 3
	for _, k := range known {
		d := distance(strings.ToLower(word), strings.ToLower(k))
		if len(k) > 3 && d < least && (d < 2 || len(k) >= 8) {
			best, least = k, d
		}
	}
	return best
}

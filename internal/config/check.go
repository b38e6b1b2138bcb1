package config

import (
	"net"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// check finds what is missing, and what contradicts itself.
func (w *walker) check(root *node) {
	w.checkListen(root)
	w.checkAPI(root)
	w.checkTraces(root)
	w.checkLogger(root.at("logger"), root.at("listen"))
	limits := root.at("limits")
	if limits != nil && !limits.bad {
		for _, name := range limits.names {
			w.checkLimit(limits.under[name])
			if topics := root.at("topics"); topics != nil && topics.under[name] != nil {
				w.refuseKey(limits.under[name], "give it another name",
					"has the name of a topic, which is the name of that topic's own limit")
			}
		}
	}
	if topics := root.at("topics"); topics != nil && !topics.bad {
		for _, name := range topics.names {
			w.checkTopic(topics.under[name])
			if why, hint := w.taken(root.at("store"), name); why != "" {
				w.refuseKey(topics.under[name], hint, "%s", why)
			}
			if !root.unsure("limits") {
				w.checkTopicLimits(topics.under[name], limits)
			}
		}
	}
	if policy := root.at("policy"); policy != nil && !policy.bad {
		if overrides := policy.at("overrides"); overrides != nil {
			for _, o := range overrides.items {
				w.checkOverride(o)
			}
		}
	}
}

// taken says why a topic can have no messages in the store of the file.
func (w *walker) taken(at *node, topic string) (why, hint string) {
	if at == nil || at.bad || w.source.CheckTopic == nil {
		return "", ""
	}
	url, _ := at.value.(string)
	return w.source.CheckTopic(url, topic)
}

// checkWork warns of a file with which a daemon has nothing to do. Other commands may
// need no more of it than its store.
func (w *walker) checkWork(root *node) {
	topics := root.at("topics")
	if a := bindAPI(root.at("api")); a.Serves() {
		return
	}
	for _, work := range []string{"pipelines", "schedules"} {
		if n := root.under[work]; n != nil && len(n.names) > 0 {
			return
		}
	}
	if w.source.Path == "" || len(w.problems.Faults()) > 0 || topics != nil && len(topics.names) > 0 {
		return
	}
	what := "there are none"
	if root.line == 0 {
		what = "there are none: the file is empty"
	}
	if topics == nil {
		topics = &node{path: "topics"}
	}
	w.warn(topics, "`pawl up` does not start without; deploy/pawl.yaml is a sample", "%s", what)
}

func (w *walker) checkListen(root *node) {
	listen := root.at("listen")
	address, _ := listen.value.(string)
	if address == "" || address == Off || loopback(address) || get[bool](root, "allow_remote") ||
		root.unsure("allow_remote") {
		return
	}
	host, _, _ := net.SplitHostPort(address)
	if host == "" {
		host = "every address of this machine"
	}
	w.refuse(listen, "use 127.0.0.1, or set allow_remote: true",
		"%s can be reached from other machines, and there is no authentication", host)
}

func (w *walker) checkTopic(t *node) {
	if w.checkBy(t) {
		w.checkHeaders(t.at("headers"))
		w.checkTopicNumbers(t)
	}
}

// checkBy checks which keys of an object are there, by the value of one of them. It reports whether that is known.
func (w *walker) checkBy(n *node) bool {
	if n.bad {
		return false
	}
	by := n.shape.by
	if n.lacks(by) {
		choices := n.shape.field(by).shape.choices
		w.refuseKey(n, "add "+by+": "+either(choices), "has no %s", by)
	}
	value, ok := find[string](n, by)
	if !ok {
		return false // it was reported that this is none
	}
	for i := range n.shape.fields {
		f := &n.shape.fields[i]
		child := n.under[f.name]
		switch {
		case f.must && f.goesWith(value) && n.lacks(f.name):
			w.refuseKey(n, "add "+f.name+": …", "%s %s needs %s", by, value, aOf(f.name))
		case child != nil && !f.goesWith(value):
			w.report(child.keyLine, child.keyColumn, child.path, "leave it out", "goes with %s %s, not with %s", by,
				strings.Join(f.with, " or "), value)
		}
	}
	return true
}

// aOf is the name of a key with its article; that of several has none.
func aOf(name string) string {
	if strings.HasSuffix(name, "s") {
		return name
	}
	return "a " + name
}

// checkHeaders finds names of one header: only one of them would be sent.
func (w *walker) checkHeaders(headers *node) {
	if headers == nil {
		return
	}
	for i, name := range headers.names {
		for _, before := range headers.names[:i] {
			if strings.EqualFold(name, before) {
				w.refuseKey(headers.under[name], "keep one of them", "is the same header as %s, in line %d", before,
					headers.under[before].keyLine)
				break
			}
		}
	}
}

func (w *walker) checkLimit(l *node) {
	if l.bad {
		return
	}
	rated := !l.lacks("rate")
	if !rated && l.lacks("concurrency") && l.lacks("adaptive") {
		w.refuseKey(l, "add rate, concurrency or adaptive", "limits nothing")
	}
	if burst := l.at("burst"); burst != nil && !rated {
		w.refuse(burst, "add a rate, or leave it out", "goes with a rate")
	}
	if get[bool](l, "shared") && !rated {
		w.refuse(l.at("shared"), "add a rate, or leave it out", "goes with a rate: that is what processes share")
	}
}

// checkTopicLimits finds names of limits that are not there.
func (w *walker) checkTopicLimits(t, limits *node) {
	if t.bad || t.at("limits") == nil {
		return
	}
	var known []string
	if limits != nil {
		if limits.open {
			return
		}
		known = slices.Concat(limits.names, limits.missed)
	}
	for i, item := range t.at("limits").items {
		name, _ := item.value.(string)
		switch {
		case item.bad:
		case !slices.Contains(known, name):
			hint := "add it under limits"
			if n := Near(name, known); n != "" {
				hint = "did you mean " + n + "?"
			}
			w.refuse(item, hint, "there is no limit %q", name)
		case slices.ContainsFunc(t.at("limits").items[:i], func(other *node) bool { return other.value == item.value }):
			w.refuse(item, "keep one of them", "names limit %q twice", name)
		}
	}
}

func (w *walker) checkTopicNumbers(t *node) {
	concurrency, reserved := get[int](t, "concurrency"), t.at("reserved")
	if reserved != nil && concurrency > 0 && !t.unsure("concurrency") && get[int](t, "reserved") >= concurrency {
		w.refuse(reserved, "reserve fewer, or raise concurrency", "must leave at least one of %d (got %s)", concurrency,
			reserved.shown)
	}
	if retry := t.at("retry"); retry != nil {
		if get[string](retry, "place") == "tail" && get[bool](t, "park") {
			place := retry.at("place")
			w.refuse(place, "leave out one of them", "does not go with park (got %s)", place.shown)
		}
		b := retry.at("backoff")
		if base, most := get[time.Duration](b, "base"), get[time.Duration](b, "max"); most > 0 && base > most {
			w.refuse(b.at("max"), "raise it, or lower the base", "must be no less than the base of %v (got %s)", base,
				b.at("max").shown)
		}
	}
	deadline, timeout := get[time.Duration](t, "deadline"), t.at("timeout")
	if timeout != nil && deadline > 0 && !t.unsure("timeout") && get[time.Duration](t, "timeout") > deadline {
		w.refuse(timeout, "lower it, or raise the deadline", "must be no longer than the deadline of %v (got %s)",
			deadline, timeout.shown)
	}
}

// checkOverride finds what is missing; what the policy has against the rest it
// says itself.
func (w *walker) checkOverride(o *node) {
	if o.bad {
		return
	}
	if m := o.at("match"); m != nil && !m.bad {
		w.checkNames(m)
		w.checkMeeting(m)
	}
	switch {
	case o.lacks("match"):
		w.refuseKey(o, "add match: {kind: …}", "does not say which failures it applies to")
	case o.at("match") != nil && len(o.names) == 1 && len(o.missed) == 0 && !o.open:
		w.refuseKey(o, "add retry, backoff, max_attempts, dead_letter or alert", "changes nothing")
	}
}

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

// Decided reports whether the policy is asked about a phase of a type: what failed, and
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

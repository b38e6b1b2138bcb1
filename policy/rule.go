package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// MaxAttempts is the most attempts that a rule may allow.
const MaxAttempts = 1000

// Rule is a row of the matrix: which failures it matches, and what happens to them.
type Rule struct {
	// ID names the rule in attempt records, logs and metrics.
	ID string
	// Match says which failures the rule is about.
	Match Match
	// Origin says where the rule comes from, for listings; empty is built in.
	Origin string
	// Origins says, of a rule that an [Override] made, where each part comes from.
	// The zero value: all of it comes from Origin.
	Origins Origins
	// Repeat says whether a failure is worth a repetition; If narrows it to
	// failures that state one of these facts, Unless takes out those that state one
	// of these. A permanent failure is never repeated, whatever the rule says.
	Repeat Repeat
	If     Facts
	Unless Facts
	// Pass are facts with which a failure does not count as one: it is recorded and
	// counted, and the work continues.
	Pass Facts
	// Backoff is the wait before a repetition.
	Backoff Backoff
	// MaxAttempts bounds the attempts, the first one included; 0 is 10. A
	// throttled failure is no attempt, and not bounded by it.
	MaxAttempts int
	// MaxThrottledAge bounds for how long a message is throttled without failing in
	// another way; 0 does not.
	MaxThrottledAge time.Duration
	// DeadLetter says what happens to work that is given up.
	DeadLetter DeadLetter
	Alert      Alert // the zero value is [Warn]
	// Degrade is what the work falls back to where it goes on without what failed:
	// when that passes, or is given up without a dead letter.
	Degrade Degrade

	grows bool // pauses go on growing after the default attempts
	timed bool // the attempts are bounded by a time
}

// Match selects failures. An empty part matches all. Rules are found from the most
// specific key to the least: (domain, type, phase, kind), the same with [AnyKind],
// (domain, type, kind), (kind), default; a rule with other parts is never found, and
// [Rule.Validate] says so.
type Match struct {
	Domain string
	Type   string
	Phase  string
	Kind   pawl.Kind
}

// name is the key as the id of a rule.
func (m Match) name() string {
	parts := []string{m.Type, m.Phase, string(m.Kind)}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), "/")
}

// problems says why a rule with that match would never be found.
func (m Match) problems() []string {
	var all []string
	if m != (Match{}) && m.Kind == "" {
		all = append(all, "a match without a kind is never looked up")
	}
	if (m.Domain == "") != (m.Type == "") || m.Phase != "" && m.Type == "" {
		all = append(all, "domain and type go together, and a phase goes with both")
	}
	if m.Kind == AnyKind && m.Phase == "" {
		all = append(all, fmt.Sprintf("kind %q needs a domain, a type and a phase", AnyKind))
	}
	return all
}

// Repeat says whether a failure is repeated.
type Repeat uint8

// The values of Repeat. The zero value retries.
const (
	Repeated Repeat = iota
	NotRepeated
)

// DeadLetter says what becomes of work that is given up.
type DeadLetter uint8

// The ways to give up. With the zero value it becomes a dead letter.
const (
	WhenExhausted DeadLetter = iota // when no retries are left, or none would help
	Always                          // at the first failure
	Never                           // it is only recorded and counted
)

// String returns the name: exhausted, always or never.
func (d DeadLetter) String() string { return nameOf(d, "exhausted", "always", "never") }

// DefaultAttempts is the bound of a rule that states none.
const DefaultAttempts = 10

// Default is the rule for what no other rule matches.
func Default() Rule {
	return Rule{ID: "default", Backoff: Backoff{Exponential, 500 * time.Millisecond, 30 * time.Second}, Alert: Warn}
}

// Validate reports everything that is wrong with the rule.
func (r *Rule) Validate() error {
	faults := pawl.Faults{About: fmt.Sprintf("rule %q: ", r.ID)}
	faults.If(r.ID == "", "id is missing")
	for _, why := range r.Match.problems() {
		faults.If(true, "%s", why)
	}
	faults.If(r.MaxAttempts < 0 || r.MaxAttempts > MaxAttempts, "max attempts %d; it goes from 1 to %d", r.MaxAttempts,
		MaxAttempts)
	b := r.Backoff
	faults.If(b.Base < 0 || b.Max < b.Base || b.Max > pawl.MaxDelay,
		"backoff from %v to %v; it goes from 0 to %v, base first", b.Base, b.Max, pawl.MaxDelay)
	faults.If(r.MaxThrottledAge < 0, "max throttled age %v is below 0", r.MaxThrottledAge)
	faults.If(r.DeadLetter == Always && (r.Repeat == Repeated || r.If|r.Unless != 0),
		"dead letter %q contradicts a retry",
		Always)
	faults.If(r.If|r.Unless != 0 && r.Repeat == NotRepeated, "a condition for a retry, but the rule never retries")
	return faults.Err()
}

// limit is how many attempts the rule allows.
func (r *Rule) limit() int { return cmp.Or(r.MaxAttempts, DefaultAttempts) }

// decide applies the rule.
func (r *Rule) decide(a *Attempt, f pawl.Failure, facts Facts, random func() float64) Decision {
	r = a.Retries.over(r)
	d := Decision{Rule: r.ID, Alert: cmp.Or(r.Alert, Warn)}
	limit := r.limit()
	switch {
	case facts&r.Pass != 0:
		d.Action, d.Degrade, d.Reason = Ignore, r.Degrade, fmt.Sprintf("%v: recorded, the work carries on",
			facts&r.Pass)
	case f.Class == pawl.ClassPermanent:
		r.giveUp(&d, "permanent: no retry would help")
	case r.Repeat == NotRepeated:
		r.giveUp(&d, "the rule never retries")
	case facts&r.Unless != 0:
		r.giveUp(&d, fmt.Sprintf("%v ends it", facts&r.Unless))
	case r.If != 0 && facts&r.If == 0:
		r.giveUp(&d, fmt.Sprintf("the rule retries only %v", r.If))
	case f.Class == pawl.ClassThrottled && r.MaxThrottledAge > 0 && a.ThrottledFor >= r.MaxThrottledAge:
		r.giveUp(&d, fmt.Sprintf("throttled for %v, %d times", a.ThrottledFor.Round(time.Second), a.Throttles))
	case f.Class == pawl.ClassThrottled:
		d.Action, d.Throttled = Retry, true
		d.Delay = notBefore(f.After, r.Backoff.Delay(cmp.Or(a.Throttles, a.Number), random()))
		d.Reason = fmt.Sprintf("throttled, attempt %d: again after %v", a.Number, d.Delay.Round(time.Millisecond))
	case a.Number >= limit:
		d.MaxAttempts = limit
		why := fmt.Sprintf("attempt %d of %d", a.Number, limit)
		if a.Retries.For > 0 && r.timed {
			why += fmt.Sprintf(", retried for %v", a.Retries.For)
		}
		r.giveUp(&d, why)
	default:
		d.Action, d.MaxAttempts = Retry, limit
		d.Delay = notBefore(f.After, r.backoffAfter(a.Number).Delay(a.Number, random()))
		d.Reason = fmt.Sprintf("attempt %d of %d: again after %v", a.Number, limit, d.Delay.Round(time.Millisecond))
	}
	return d
}

// notBefore is the delay that the other side asked for, within what it may ask for, or the backoff if that is longer.
func notBefore(after, backoff time.Duration) time.Duration {
	return max(min(after, pawl.MaxPause), backoff)
}

func (r *Rule) giveUp(d *Decision, why string) {
	d.Action, d.Reason = Dead, why+": dead letter"
	if r.DeadLetter == Never {
		d.Action, d.Degrade, d.Reason = Ignore, r.Degrade, why+": recorded, no dead letter"
	}
}

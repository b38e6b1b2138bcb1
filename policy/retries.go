package policy

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl"
)

// Retries says for how long the failures of a topic are repeated. It may be looser than
// the rules, and changes only those for kinds and the default: rules for an event, and
// bounds that a rule states itself, stay as they are. What is permanent stays permanent.
// A zero field leaves what the rule says.
type Retries struct {
	// Attempts bounds the attempts, the first one included.
	Attempts int
	// For bounds the attempts by time: until the pauses between them, taken at their mean,
	// add up to that. Without Max, the pauses go on growing after the tenth, up to ten
	// minutes.
	For time.Duration
	// Base and Max are those of the [Backoff].
	Base, Max time.Duration
}

// DefaultRetryFor is for how long a topic is retried that says nothing else: no restart of a downstream is to kill
// its messages.
const DefaultRetryFor = 24 * time.Hour

// RetriesTopic is the topic of the state (package statesync) in which operators keep Retries, by topic. They count
// before those that a program states.
const RetriesTopic = "retries"

// Or returns r, with the fields of otherwise where it has none.
func (r Retries) Or(otherwise Retries) Retries {
	return Retries{cmp.Or(r.Attempts, otherwise.Attempts), cmp.Or(r.For, otherwise.For),
		cmp.Or(r.Base, otherwise.Base), cmp.Or(r.Max, otherwise.Max)}
}

// retriesJSON is the JSON of Retries: what is zero is left out.
type retriesJSON struct {
	For      float64      `json:"for_seconds,omitzero"`
	Attempts int          `json:"attempts,omitzero"`
	Backoff  *backoffJSON `json:"backoff,omitempty"`
}

type backoffJSON struct {
	Base float64 `json:"base_seconds,omitzero"`
	Max  float64 `json:"max_seconds,omitzero"`
}

// MarshalJSON returns r as JSON, with durations in seconds.
func (r Retries) MarshalJSON() ([]byte, error) {
	j := retriesJSON{For: r.For.Seconds(), Attempts: r.Attempts}
	if r.Base != 0 || r.Max != 0 {
		j.Backoff = &backoffJSON{r.Base.Seconds(), r.Max.Seconds()}
	}
	return json.Marshal(j)
}

// UnmarshalJSON reads what MarshalJSON writes, and refuses what Validate refuses.
func (r *Retries) UnmarshalJSON(text []byte) error {
	var j retriesJSON
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	b := cmp.Or(j.Backoff, new(backoffJSON))
	span := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	*r = Retries{j.Attempts, span(j.For), span(b.Base), span(b.Max)}
	return r.Validate()
}

// longestPause is how far pauses grow without a Max.
const longestPause = 10 * time.Minute

// Validate reports everything that is wrong with r.
func (r *Retries) Validate() error {
	var faults pawl.Faults
	faults.If(r.Attempts < 0 || r.Attempts > MaxAttempts, "attempts are %d; they go from 1 to %d", r.Attempts,
		MaxAttempts)
	faults.If(r.For < 0 || r.For > pawl.MaxDelay, "for is %v; it goes from 0 to %v", r.For, pawl.MaxDelay)
	faults.If(r.Base < 0 || r.Max < 0 || r.Max > pawl.MaxDelay || r.Base > cmp.Or(r.Max, pawl.MaxDelay),
		"backoff from %v to %v; it goes from 0 to %v, base first", r.Base, r.Max, pawl.MaxDelay)
	return faults.Err()
}

// over returns the rule as a topic has it.
func (r Retries) over(rule *Rule) *Rule {
	if r == (Retries{}) || rule.Match.Type != "" {
		return rule
	}
	own := *rule
	own.Backoff.Base = cmp.Or(r.Base, own.Backoff.Base)
	own.Backoff.Max = max(cmp.Or(r.Max, own.Backoff.Max), own.Backoff.Base)
	if rule.MaxAttempts > 0 {
		return &own
	}
	own.MaxAttempts = r.Attempts
	if r.For > 0 {
		own.grows = r.Max == 0
		within := own.attemptsWithin(r.For)
		own.timed = r.Attempts == 0 || within < r.Attempts
		own.MaxAttempts = min(cmp.Or(r.Attempts, MaxAttempts), within)
	}
	return &own
}

// attemptsWithin is how many attempts it takes for the pauses to add up to a time.
func (r *Rule) attemptsWithin(total time.Duration) int {
	n := 1
	for ; n < MaxAttempts && total > 0; n++ {
		b := r.backoffAfter(n)
		total -= (b.Delay(n, 0) + b.Ceiling(n)) / 2
	}
	return n
}

// backoffAfter is the backoff after the n-th attempt.
func (r *Rule) backoffAfter(n int) Backoff {
	b := r.Backoff
	for more := n - DefaultAttempts; r.grows && more > 0 && b.Max < longestPause; more-- {
		b.Max = min(2*max(b.Max, time.Second), longestPause)
	}
	return b
}

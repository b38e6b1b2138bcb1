package policy

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// Attempt is a failed attempt, the input of the policy.
type Attempt struct {
	// Topic of the message that failed; empty for a failure outside a delivery.
	Topic string
	// Event is what was being done when it failed. Parts that are empty are taken from
	// Err ([At]); a phase that is not stated is [Failed].
	Event Event
	// Number counts the attempts of the message from 1, this one included.
	Number int
	// Throttles counts the throttled failures since the last other one, this one
	// included if it is throttled, and ThrottledFor is how long ago the first was.
	Throttles    int
	ThrottledFor time.Duration
	// Retries is what the topic says about repetitions.
	Retries Retries
	// Err is what the handler returned. Kind, class and delay are read from it
	// with pawl.Describe, facts and event with what this package wraps.
	Err error
	// Facts are added to those that Err states.
	Facts Facts
}

// Event says what was being done, in the words of the event bus. Its values
// are bounded: they name code, never data.
type Event struct {
	Domain string // Engine or System
	Type   string // what was done, in the words of its pipeline
	Phase  string // Failed, Retry, Completed …
}

// The phases that are decided about. Failed is the default.
const (
	Failed = "Failed"
	Again  = "Retry" // a repetition failed
)

// or fills the empty parts of e.
func (e Event) or(o Event) Event {
	return Event{cmp.Or(e.Domain, o.Domain), cmp.Or(e.Type, o.Type), cmp.Or(e.Phase, o.Phase)}
}

// Facts are what conditions of rules ask for: a set of bits.
type Facts uint8

// The facts.
const (
	Timeout  Facts = 1 << iota // it took too long
	Connect                    // the other side was not reached
	Conflict                   // it exists already: a duplicate or unique key
	BadInput                   // the input is wrong
	Shortage                   // a resource is exhausted: memory, space, connections
	Limit                      // a limit on the whole task is reached
)

var factNames = []string{"timeout", "connect", "conflict", "bad input", "shortage", "limit"}

// String names the facts in the set, separated by "|"; "none" for none.
func (f Facts) String() string {
	var names []string
	for i, name := range factNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return cmp.Or(strings.Join(names, "|"), "none")
}

// Fault is an error with what rules need beyond the pawl.Failure: where it happened,
// and facts.
type Fault struct {
	Err   error
	Event Event
	Facts Facts
}

func (f *Fault) Error() string {
	if f.Err == nil { // made by hand
		return "failure: " + f.Facts.String()
	}
	return f.Err.Error()
}

// Unwrap returns the error that f describes.
func (f *Fault) Unwrap() error { return f.Err }

// At says what was being done when err happened. At(nil, …) is nil.
func At(err error, e Event) error {
	if err == nil {
		return nil
	}
	return &Fault{Err: err, Event: e}
}

// With states facts about err. With(nil, …) is nil.
func With(err error, f Facts) error {
	if err == nil {
		return nil
	}
	return &Fault{Err: err, Facts: f}
}

// EventOf returns the event that the chain of an error states ([At]); of what it leaves open, otherwise.
func EventOf(err error, otherwise Event) Event {
	e, _ := stated(err)
	return e.or(otherwise)
}

// FactsOf returns the facts that the chain of an error states. An error with a
// method Timeout() bool that returns true, as those of package net and of contexts
// have it, states [Timeout].
func FactsOf(err error) Facts {
	_, facts := stated(err)
	if t, ok := errors.AsType[timeouter](err); ok && t.Timeout() || pawl.Describe(err).Kind == pawl.KindDeadline {
		facts |= Timeout
	}
	return facts
}

// stated is what the faults in the chain of an error say: all facts, and of the
// event the outermost statement of each part.
func stated(err error) (e Event, facts Facts) {
	for err != nil {
		f, ok := errors.AsType[*Fault](err)
		if !ok {
			break
		}
		e, facts = e.or(f.Event), facts|f.Facts
		err = f.Err
	}
	return e, facts
}

// describe combines what a states and what the chain of its error states.
func (a *Attempt) describe() (pawl.Failure, Event, Facts) {
	e, _ := stated(a.Err)
	return pawl.Describe(a.Err), a.Event.or(e).or(Event{Phase: Failed}), a.Facts | FactsOf(a.Err)
}

// Inputs is everything that a decision about a is made from, in one line for attempt
// records: with it, the decision can be reproduced. Unstated parts are left out.
func (a Attempt) Inputs() string {
	f, e, facts := a.describe()
	all := []string{fmt.Sprintf("attempt=%d class=%v", a.Number, f.Class)}
	for _, part := range []struct{ name, value string }{
		{"domain", e.Domain}, {"type", e.Type}, {"phase", e.Phase}, {"kind", string(f.Kind)},
	} {
		if part.value != "" {
			all = append(all, part.name+"="+plain(part.value))
		}
	}
	if facts != 0 {
		all = append(all, "facts="+plain(facts.String()))
	}
	if f.After > 0 {
		all = append(all, "retry_after="+f.After.String())
	}
	if a.Throttles > 0 {
		all = append(all, fmt.Sprintf("throttles=%d throttled_for=%v", a.Throttles, a.ThrottledFor.Round(time.Second)))
	}
	return strings.Join(all, " ")
}

// plain quotes a value that could be taken for something else.
func plain(value string) string {
	odd := func(r rune) bool { return r <= ' ' || r == '"' || r == '=' || !strconv.IsPrint(r) }
	if strings.ContainsFunc(value, odd) {
		return strconv.Quote(value)
	}
	return value
}

type timeouter interface {
	error
	Timeout() bool
}

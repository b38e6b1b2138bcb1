package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// The domains of the event bus.
const (
	Engine = "Engine" // what pipelines do
	System = "System" // what the process around them does
)

// DomainOf is the domain of a type of event: System for those of the process, Engine
// for those of pipelines.
func DomainOf(typ string) string {
	if strings.HasPrefix(typ, System) {
		return System
	}
	return Engine
}

// AnyKind in a [Match] with domain, type and phase stands for all kinds, a
// missing one included, that have no row of their own there.
const AnyKind pawl.Kind = "any"

// Kinds that every program may report, whichever pipelines it has.
const (
	KindService   pawl.Kind = "Service"   // a service that the work needs has failed
	KindRateLimit pawl.Kind = "RateLimit" // a service wants fewer requests
	KindRejected  pawl.Kind = "Rejected"  // a service says that the request is wrong: HTTP 4xx
	KindCommand   pawl.Kind = "Command"   // a program has failed
	KindQueue     pawl.Kind = "Queue"
	KindSyncCodec pawl.Kind = "SyncCodec" // a value of the state sync that nobody can read
)

// Rows are rules for several kinds at the same event, each named after its match.
func Rows(e Event, r Rule, kinds ...pawl.Kind) []Rule {
	rules := make([]Rule, len(kinds))
	for i, kind := range kinds {
		r.Match = Match{e.Domain, e.Type, e.Phase, kind}
		r.ID = r.Match.name()
		rules[i] = r
	}
	return rules
}

// systemRules are the rows for what the process around the pipelines does.
func systemRules() []Rule {
	recorded := Rule{Repeat: NotRepeated, DeadLetter: Never, Alert: Error}
	unwell := recorded
	unwell.Alert = Warn
	return slices.Concat(
		Rows(Event{System, "SystemError", Failed}, recorded, AnyKind),
		// A component that is found unwell is looked at again anyway; a start or a
		// shutdown that failed is louder.
		Rows(Event{System, "SystemHealth", completed}, unwell, KindService, KindQueue),
		Rows(Event{System, "SystemHealth", Failed}, recorded, AnyKind),
	)
}

// kindRules are the rows for kinds at whatever event.
func kindRules() []Rule {
	d := Default()
	always := Rule{Repeat: NotRepeated, DeadLetter: Always, Alert: Error}
	named := func(id string, kind pawl.Kind, r Rule) []Rule {
		r.ID, r.Match = id, Match{Kind: kind}
		return []Rule{r}
	}
	return slices.Concat(
		Rows(Event{}, Rule{Backoff: Backoff{Exponential, 500 * time.Millisecond, 30 * time.Second}, Alert: Warn},
			KindService, KindCommand),
		Rows(Event{}, Rule{Repeat: NotRepeated, DeadLetter: Never, Alert: Warn}, KindSyncCodec),
		named("decode", pawl.KindDecode, always),
		named("emit", pawl.KindEmit, always),
		named("rejected", KindRejected, always),
		// A panic may be a moment's bad luck, but one in a repetition is not.
		named("panic", pawl.KindPanic, Rule{Backoff: d.Backoff, MaxAttempts: 2, Alert: Error}),
		named("deadline", pawl.KindDeadline, Rule{Backoff: d.Backoff, Alert: Error}),
	)
}

package policy

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// The domains of the event bus.
const (
	Engine = "Engine" // the work of pipelines
	System = "System" // the process around them
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

// Kinds that any program may report, regardless of pipelines.
const (
	KindService   pawl.Kind = "Service"   // a service that the work depends on has failed
	KindRateLimit pawl.Kind = "RateLimit" // a service wants fewer requests
	KindRejected  pawl.Kind = "Rejected"  // a service says that the request is wrong: HTTP 4xx
	KindCommand   pawl.Kind = "Command"   // a program has failed
	KindQueue     pawl.Kind = "Queue"
	KindSyncCodec pawl.Kind = "SyncCodec" // a value of the state sync that cannot be read
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
		// An unhealthy component is checked again anyway; a failed start or shutdown is
		// more serious.
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
		// A single panic may be transient, but one in a retry is not.
		named("panic", pawl.KindPanic, Rule{Backoff: d.Backoff, MaxAttempts: 2, Alert: Error}),
		named("deadline", pawl.KindDeadline, Rule{Backoff: d.Backoff, Alert: Error}),
	)
}

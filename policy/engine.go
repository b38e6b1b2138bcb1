package policy

import (
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

// Kinds of the pipelines that rows are about.
const (
	KindTask           pawl.Kind = "Task"
	KindModule         pawl.Kind = "Module"
	KindParser         pawl.Kind = "Parser"
	KindProcessorChain pawl.Kind = "ProcessorChain"
	KindRequest        pawl.Kind = "Request"
	KindResponse       pawl.Kind = "Response"
	KindDownload       pawl.Kind = "Download"
	KindProxy          pawl.Kind = "Proxy"
	KindRateLimit      pawl.Kind = "RateLimit"
	KindQueue          pawl.Kind = "Queue"
	KindCacheService   pawl.Kind = "CacheService"
	KindDataMiddleware pawl.Kind = "DataMiddleware"
	KindDataStore      pawl.Kind = "DataStore"
	KindOrm            pawl.Kind = "Orm"
	KindService        pawl.Kind = "Service"
	KindCommand        pawl.Kind = "Command"
	KindDynamicLibrary pawl.Kind = "DynamicLibrary"
	KindRejected       pawl.Kind = "Rejected"  // a service says that the request is wrong: HTTP 4xx
	KindSyncCodec      pawl.Kind = "SyncCodec" // a value of the state sync that nobody can read
)

// engineRules are the rows for what pipelines do, by type of event. A row
// without a phase is about Failed and Retry.
func engineRules() []Rule {
	exponential := Backoff{Exponential, 500 * time.Millisecond, 30 * time.Second}
	download := Backoff{Exponential, 500 * time.Millisecond, time.Minute}
	linear := Backoff{Linear, 200 * time.Millisecond, 10 * time.Second}
	always := Rule{Repeat: NotRepeated, DeadLetter: Always, Alert: Error}
	var rules []Rule
	row := func(domain, typ, phase string, r Rule, kinds ...pawl.Kind) {
		for _, kind := range kinds {
			r.Match = Match{domain, typ, phase, kind}
			r.ID = r.Match.name()
			rules = append(rules, r)
		}
	}
	row(Engine, "TaskModel", "", Rule{Backoff: exponential, Alert: Warn}, KindTask, KindModule)
	row(Engine, "ParserTaskModel", "", Rule{Backoff: exponential, Alert: Warn}, KindParser, KindProcessorChain)
	row(Engine, "RequestPublish", "", Rule{Backoff: exponential, Alert: Warn}, KindQueue)
	row(Engine, "RequestMiddleware", Failed, always, KindRequest, KindProcessorChain)
	row(Engine, "Download", "", Rule{Backoff: download, Alert: Warn}, KindDownload, KindProxy, KindRateLimit)
	row(Engine, "ResponseMiddleware", Failed, always, KindResponse, KindProcessorChain)
	row(Engine, "ResponsePublish", "", Rule{Backoff: exponential, Alert: Warn}, KindQueue)
	// A limit of the task or the module, or a configuration that is not there,
	// ends it, however it came about.
	row(Engine, "ModuleGenerate", "", Rule{If: Timeout | Connect, Unless: Limit | BadInput, Backoff: exponential, Alert: Error}, KindModule, KindTask)
	row(Engine, "Parser", "", always, KindParser)
	row(Engine, "MiddlewareBefore", Failed,
		Rule{If: Shortage | Timeout, Pass: BadInput, Degrade: SkipItem, Backoff: linear, Alert: Warn}, KindDataMiddleware)
	row(Engine, "DataStore", "", Rule{If: Timeout | Connect, Pass: Conflict, Degrade: CarryOn, Backoff: linear, Alert: Error}, KindDataStore, KindOrm)
	row(System, "SystemError", Failed, Rule{Repeat: NotRepeated, DeadLetter: Never, Alert: Error}, AnyKind)
	// A component that is found unwell is looked at again anyway; a start or a
	// shutdown that failed is louder.
	row(System, "SystemHealth", "Completed", Rule{Repeat: NotRepeated, DeadLetter: Never, Alert: Warn}, KindService, KindCacheService, KindQueue)
	row(System, "SystemHealth", Failed, Rule{Repeat: NotRepeated, DeadLetter: Never, Alert: Error}, AnyKind)
	// What has no row of its own, by kind.
	row("", "", "", Rule{Backoff: exponential, Alert: Warn}, KindCacheService, KindService, KindCommand, KindDynamicLibrary)
	row("", "", "", Rule{Repeat: NotRepeated, DeadLetter: Never, Alert: Warn}, KindSyncCodec)
	return rules
}

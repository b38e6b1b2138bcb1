// Package crawl is the crawler as a pipeline.
package crawl

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// The kinds of failure that the rows of a crawl are about, beside those of package policy.
const (
	KindTask           pawl.Kind = "Task"
	KindModule         pawl.Kind = "Module"
	KindParser         pawl.Kind = "Parser"
	KindProcessorChain pawl.Kind = "ProcessorChain"
	KindRequest        pawl.Kind = "Request"
	KindResponse       pawl.Kind = "Response"
	KindDownload       pawl.Kind = "Download"
	KindProxy          pawl.Kind = "Proxy"
	KindCacheService   pawl.Kind = "CacheService"
	KindDataMiddleware pawl.Kind = "DataMiddleware"
	KindDataStore      pawl.Kind = "DataStore"
	KindOrm            pawl.Kind = "Orm"
	KindDynamicLibrary pawl.Kind = "DynamicLibrary"
)

// Rules are the rows of the policy matrix about what a crawl does, by type of event. A row without a phase is
// about Failed and Retry.
func Rules() []policy.Rule {
	exponential := policy.Backoff{Shape: policy.Exponential, Base: 500 * time.Millisecond, Max: 30 * time.Second}
	download := policy.Backoff{Shape: policy.Exponential, Base: 500 * time.Millisecond, Max: time.Minute}
	linear := policy.Backoff{Shape: policy.Linear, Base: 200 * time.Millisecond, Max: 10 * time.Second}
	repeated := policy.Rule{Backoff: exponential, Alert: policy.Warn}
	always := policy.Rule{Repeat: policy.NotRepeated, DeadLetter: policy.Always, Alert: policy.Error}
	row := func(typ, phase string, r policy.Rule, kinds ...pawl.Kind) []policy.Rule {
		return policy.Rows(policy.Event{Domain: policy.Engine, Type: typ, Phase: phase}, r, kinds...)
	}
	return slices.Concat(
		row("TaskModel", "", repeated, KindTask, KindModule),
		row("ParserTaskModel", "", repeated, KindParser, KindProcessorChain),
		row("RequestPublish", "", repeated, policy.KindQueue),
		row("RequestMiddleware", policy.Failed, always, KindRequest, KindProcessorChain),
		row("Download", "", policy.Rule{Backoff: download, Alert: policy.Warn}, KindDownload, KindProxy,
			policy.KindRateLimit),
		row("Download", "", policy.Rule{Backoff: download, MaxAttempts: 5, Alert: policy.Warn}, KindTransfer),
		row("Download", "", always, KindStatus, KindTooLarge, KindRedirect, KindPrivate),
		row("ResponseMiddleware", policy.Failed, always, KindResponse, KindProcessorChain),
		row("ResponsePublish", "", repeated, policy.KindQueue),
		// A limit of the task or the module, or a configuration that is missing, ends the work, whatever else is
		// known about the failure.
		row("ModuleGenerate", "", policy.Rule{
			If: policy.Timeout | policy.Connect, Unless: policy.Limit | policy.BadInput, Backoff: exponential,
			Alert: policy.Error,
		}, KindModule, KindTask),
		row("Parser", "", always, KindParser),
		row("MiddlewareBefore", policy.Failed, policy.Rule{
			If: policy.Shortage | policy.Timeout, Pass: policy.BadInput, Degrade: policy.SkipItem, Backoff: linear,
			Alert: policy.Warn,
		}, KindDataMiddleware),
		row("DataStore", "", policy.Rule{
			If: policy.Timeout | policy.Connect, Pass: policy.Conflict, Degrade: policy.CarryOn, Backoff: linear,
			Alert: policy.Error,
		}, KindDataStore, KindOrm),
		policy.Rows(policy.Event{Domain: policy.System, Type: "SystemHealth", Phase: "Completed"},
			policy.Rule{Repeat: policy.NotRepeated, DeadLetter: policy.Never, Alert: policy.Warn}, KindCacheService),
		policy.Rows(policy.Event{}, repeated, KindCacheService, KindDynamicLibrary),
	)
}

package policy_test

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// pipelineRows are rows as a pipeline has them: those of the crawler when this was written.
func pipelineRows() []policy.Rule {
	exponential := policy.Backoff{Shape: policy.Exponential, Base: 500 * time.Millisecond, Max: 30 * time.Second}
	download := policy.Backoff{Shape: policy.Exponential, Base: 500 * time.Millisecond, Max: time.Minute}
	linear := policy.Backoff{Shape: policy.Linear, Base: 200 * time.Millisecond, Max: 10 * time.Second}
	repeated := policy.Rule{Backoff: exponential, Alert: policy.Warn}
	always := policy.Rule{Repeat: policy.NotRepeated, DeadLetter: policy.Always, Alert: policy.Error}
	row := func(typ, phase string, r policy.Rule, kinds ...pawl.Kind) []policy.Rule {
		return policy.Rows(policy.Event{Domain: policy.Engine, Type: typ, Phase: phase}, r, kinds...)
	}
	return slices.Concat(
		row("TaskModel", "", repeated, "Task", "Module"),
		row("ParserTaskModel", "", repeated, "Parser", "ProcessorChain"),
		row("RequestPublish", "", repeated, policy.KindQueue),
		row("RequestMiddleware", policy.Failed, always, "Request", "ProcessorChain"),
		row("Download", "", policy.Rule{Backoff: download, Alert: policy.Warn}, "Download", "Proxy",
			policy.KindRateLimit),
		row("ResponseMiddleware", policy.Failed, always, "Response", "ProcessorChain"),
		row("ResponsePublish", "", repeated, policy.KindQueue),
		// A limit of the task or the module, or a configuration that is missing, ends the work, whatever else is
		// known about the failure.
		row("ModuleGenerate", "", policy.Rule{
			If: policy.Timeout | policy.Connect, Unless: policy.Limit | policy.BadInput, Backoff: exponential,
			Alert: policy.Error,
		}, "Module", "Task"),
		row("Parser", "", always, "Parser"),
		row("MiddlewareBefore", policy.Failed, policy.Rule{
			If: policy.Shortage | policy.Timeout, Pass: policy.BadInput, Degrade: policy.SkipItem, Backoff: linear,
			Alert: policy.Warn,
		}, "DataMiddleware"),
		row("DataStore", "", policy.Rule{
			If: policy.Timeout | policy.Connect, Pass: policy.Conflict, Degrade: policy.CarryOn, Backoff: linear,
			Alert: policy.Error,
		}, "DataStore", "Orm"),
		policy.Rows(policy.Event{Domain: policy.System, Type: "SystemHealth", Phase: "Completed"},
			policy.Rule{Repeat: policy.NotRepeated, DeadLetter: policy.Never, Alert: policy.Warn}, "CacheService"),
		policy.Rows(policy.Event{}, repeated, "CacheService", "DynamicLibrary"),
	)
}

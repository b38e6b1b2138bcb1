package convert

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/llm"
	"github.com/pawl-dev/pawl/policy"
)

// Rules are the rows of the policy matrix about conversions. How often a document is tried is --max-retries.
func Rules() []policy.Rule {
	again := policy.Rule{
		Backoff:     policy.Backoff{Shape: policy.Exponential, Base: 500 * time.Millisecond, Max: 30 * time.Second},
		MaxAttempts: policy.MaxAttempts, Alert: policy.Warn,
	}
	never := policy.Rule{Repeat: policy.NotRepeated, DeadLetter: policy.Always, Alert: policy.Error}
	kinds := []pawl.Kind{"Input", "Output", "Timeout", llm.KindRateLimit, llm.KindServer, llm.KindAway, llm.KindAnswer}
	final := []pawl.Kind{
		doc.KindCorrupt, doc.KindLocked, doc.KindTooLarge, doc.KindHidden, doc.KindNesting, doc.KindUnsupported,
		doc.KindToolMissing, llm.KindContext, llm.KindRequest,
	}
	return append(policy.Rows(event, again, kinds...), policy.Rows(event, never, final...)...)
}

package wecom

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// KindHandler is a failure of the user's handler.
const KindHandler pawl.Kind = "WecomHandler"

// rules are the rows of the policy matrix.
func rules() []policy.Rule {
	backoff := policy.Backoff{Shape: policy.Exponential, Base: 500 * time.Millisecond, Max: 30 * time.Second}
	// Transient failures are retried for about eight hours: only the lane of the user waits.
	passing := policy.Rule{Backoff: backoff, MaxAttempts: policy.MaxAttempts, Alert: policy.Warn}
	// What is too busy may be asked three times more, says the vendor.
	busy := policy.Rule{Backoff: policy.Backoff{Shape: policy.Exponential, Base: 2 * time.Second, Max: 30 * time.Second},
		MaxAttempts: 1 + busyTimes, Alert: policy.Warn}
	never := policy.Rule{Repeat: policy.NotRepeated, DeadLetter: policy.Always, Alert: policy.Warn}
	loud := never
	loud.Alert = policy.Error
	row := func(r policy.Rule, kinds ...pawl.Kind) []policy.Rule { return policy.Rows(policy.Event{}, r, kinds...) }
	return slices.Concat(
		row(busy, KindBusy),
		row(passing, KindAway, KindThrottled, KindToken),
		row(never, KindBudget, KindWindow, KindSession, KindContact),
		row(loud, KindContent, KindAccount, KindConfig, KindUnknownCode),
		row(policy.Rule{Backoff: backoff, MaxAttempts: 10, Alert: policy.Error}, KindHandler),
	)
}

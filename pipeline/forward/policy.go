package forward

import (
	"time"

	"github.com/pawl-dev/pawl/policy"
)

// policyRules are the rows of the policy matrix. Telegram's outages may last: what could not be sent is kept.
func policyRules() []policy.Rule {
	return []policy.Rule{
		{ID: "forward-telegram", Match: policy.Match{Kind: KindTelegram}, MaxAttempts: policy.MaxAttempts,
			Backoff: policy.Backoff{Shape: policy.Exponential, Base: time.Second, Max: time.Minute},
			Alert:   policy.Warn},
		{ID: "forward-rejected", Match: policy.Match{Kind: KindRejected}, Repeat: policy.NotRepeated,
			Alert: policy.Warn},
		{ID: "forward-blocked", Match: policy.Match{Kind: KindBlocked}, Repeat: policy.NotRepeated, Alert: policy.Warn},
	}
}

package policy_test

import (
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/policy"
)

// Decisions are made by the policy that is in place, while it is replaced.
func TestLiveIsReplacedWhileItDecides(t *testing.T) {
	saying := func(rule string) policy.Func {
		return func(policy.Attempt) policy.Decision { return policy.Decision{Rule: rule} }
	}
	l := policy.NewLive(saying("old"))
	if d := l.Decide(policy.Attempt{}); d.Rule != "old" {
		t.Fatalf("%+v", d)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				if rule := l.Decide(policy.Attempt{}).Rule; rule != "old" && rule != "new" {
					t.Errorf("rule %q", rule)
				}
			}
		})
	}
	l.Swap(saying("new"))
	wg.Wait()
	if d := l.Load().Decide(policy.Attempt{}); d.Rule != "new" {
		t.Fatalf("%+v", d)
	}
}

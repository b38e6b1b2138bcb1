package policy_test

import (
	"testing"

	"github.com/pawl-dev/pawl/policy"
)

func TestAFaultWithoutAnErrorHasAText(t *testing.T) {
	f := &policy.Fault{Facts: policy.Timeout}
	if f.Error() != "failure: timeout" || policy.FactsOf(f) != policy.Timeout {
		t.Errorf("%q, %v", f.Error(), policy.FactsOf(f))
	}
}

package policy_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// A rule for downloads: patient, but not for what is no question of time.
func ExampleNewMatrix() {
	noJitter := func() float64 { return 0 }
	m, err := policy.NewMatrix(noJitter, policy.Rule{
		ID: "download", Match: policy.Match{Kind: "Download"}, If: policy.Timeout | policy.Connect,
		Backoff: policy.Backoff{Base: time.Second, Max: time.Minute}, MaxAttempts: 5, Alert: policy.Error,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	refused := policy.With(errors.New("connection refused"), policy.Connect)
	for _, err := range []error{refused, errors.New("404 not found")} {
		d := m.Decide(policy.Attempt{Number: 2, Err: pawl.OfKind("Download", err)})
		fmt.Printf("%v: %v (%s) by rule %s\n", err, d.Action, d.Reason, d.Rule)
	}
	// Output:
	// connection refused: retry (attempt 2 of 5: again after 1s) by rule download
	// 404 not found: dead (the rule retries only timeout|connect: dead letter) by rule download
}

// An operator is stricter with failing services. What would be weaker is refused.
func ExampleNewMatrixOf() {
	services := policy.Match{Kind: policy.KindService}
	_, err := policy.NewMatrixOf(nil, nil, policy.Override{
		Match: services, MaxAttempts: new(20), Backoff: &policy.BackoffChange{Max: new(10 * time.Second)},
		Origin: "pawl.yaml:7",
	})
	fmt.Println(err)

	noJitter := func() float64 { return 0 }
	m, err := policy.NewMatrixOf(noJitter, nil, policy.Override{
		Match: services, MaxAttempts: new(3), Backoff: &policy.BackoffChange{Base: new(5 * time.Second)},
		Origin: "pawl.yaml:7",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	d := m.Decide(policy.Attempt{Number: 1, Err: pawl.OfKind(policy.KindService, errors.New("502"))})
	fmt.Printf("%v (%s) by rule %s\n", d.Action, d.Reason, d.Rule)
	// Output:
	// overrides[0].max_attempts: weaker than rule "Service": max attempts 20, was 10
	// overrides[0].backoff.max: weaker than rule "Service": backoff max 10s, was 30s
	// retry (attempt 1 of 3: again after 5s) by rule Service+override
}

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
	// 404 not found: dead (the rule repeats timeout|connect only: dead letter) by rule download
}

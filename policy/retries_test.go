package policy_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// lifeOf returns how often a failure is tried, how long its pauses are together, the
// longest of them, and the last decision.
func lifeOf(t *testing.T, m *policy.Matrix, err error, r policy.Retries) (int, time.Duration, time.Duration, string) {
	t.Helper()
	var total, longest time.Duration
	for n := 1; ; n++ {
		d := m.Decide(policy.Attempt{Number: n, Err: err, Retries: r})
		if d.Action == policy.Dead {
			return n, total, longest, d.Reason
		}
		total, longest = total+d.Delay, max(longest, d.Delay)
	}
}

// TestATopicIsRetriedForAsLongAsItSays: ten attempts are over in a minute, and a service
// that restarts would kill its messages.
func TestATopicIsRetriedForAsLongAsItSays(t *testing.T) {
	row := policy.Rows(policy.Event{Domain: policy.Engine, Type: "Download", Phase: policy.Failed},
		policy.Rule{Backoff: policy.Default().Backoff}, "Download")
	m, err := policy.NewMatrix(func() float64 { return 0.5 }, row...)
	if err != nil {
		t.Fatal(err)
	}
	plain, day := errors.New("refused"), policy.Retries{For: 24 * time.Hour}
	n, total, longest, why := lifeOf(t, m, plain, day)
	if total < 24*time.Hour || total > 24*time.Hour+10*time.Minute || longest < 5*time.Minute ||
		longest > 10*time.Minute {
		t.Errorf("%d attempts in %v, the longest pause is %v", n, total, longest)
	}
	if !strings.Contains(why, "retried for 24h0m0s") {
		t.Error(why)
	}
	few := policy.Retries{Attempts: 3, Base: time.Minute, Max: time.Hour}
	n, total, _, why = lifeOf(t, m, plain, few)
	if n != 3 || total < 2*time.Minute || !strings.HasPrefix(why, "attempt 3 of 3") {
		t.Errorf("%d attempts in %v: %s", n, total, why)
	}
	if n, _, _, _ := lifeOf(t, m, plain, policy.Retries{}); n != policy.DefaultAttempts {
		t.Errorf("%d attempts where nothing is said", n)
	}
	for name, err := range map[string]error{
		"permanent": pawl.Permanent(plain), "decode": pawl.OfKind(pawl.KindDecode, plain),
	} {
		if n, _, _, _ := lifeOf(t, m, err, day); n != 1 {
			t.Errorf("%s: %d attempts", name, n)
		}
	}
	if n, _, _, _ := lifeOf(t, m, pawl.OfKind(pawl.KindPanic, plain), day); n != 2 {
		t.Errorf("panic: %d attempts", n)
	}
	download := policy.At(pawl.OfKind("Download", plain), policy.Event{Domain: policy.Engine, Type: "Download"})
	if n, _, _, _ := lifeOf(t, m, download, day); n != policy.DefaultAttempts {
		t.Errorf("a row of a pipeline: %d attempts", n)
	}
}

// TestBackoffBeyondTheLongestDelay: a base without a max is bounded, too.
func TestBackoffBeyondTheLongestDelay(t *testing.T) {
	for r, valid := range map[policy.Retries]bool{
		{Base: pawl.MaxDelay}:                       true,
		{Base: pawl.MaxDelay + 1}:                   false,
		{Base: time.Hour, Max: time.Minute}:         false,
		{Base: time.Minute, Max: pawl.MaxDelay + 1}: false,
		{Base: pawl.MaxDelay, Max: pawl.MaxDelay}:   true,
		{Base: -time.Second}:                        false,
	} {
		if err := r.Validate(); (err == nil) != valid {
			t.Errorf("backoff from %v to %v: %v", r.Base, r.Max, err)
		}
	}
}

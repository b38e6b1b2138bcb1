package storetest

import "testing"

// RandomFails returns why a random walk of that seed fails, without shrinking it.
func RandomFails(t testing.TB, h Harness, seed uint64, steps int) string {
	if f := tryRandom(t, h, seed, randomSteps(seed, steps)); f != nil {
		return f.why
	}
	return ""
}

// RaceFails returns why a test of concurrency fails.
func RaceFails(t testing.TB, h Harness, name string) string {
	for _, r := range races() {
		if r.Name == name {
			return whyFailed(t, h, r.Test)
		}
	}
	return "there is no such test"
}

// FaultsFail returns why a walk of that seed with faults fails.
func FaultsFail(t testing.TB, h Harness, seed uint64, steps int) string {
	return whyFailed(t, h, func(t *T) { walkWithFaults(t, seed, steps) })
}

func whyFailed(t testing.TB, h Harness, test func(*T)) string {
	r := &recorder{TB: t}
	r.run(func() { test(newT(r, h.Open(r))) })
	return r.why
}

// Lies reports whether [Receipts] finds fault with a decorator.
func Lies(t testing.TB, wrap Decorate) bool {
	for _, f := range appendFailures {
		if len(lies(t, wrap, f)) > 0 {
			return true
		}
	}
	return false
}

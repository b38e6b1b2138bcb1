// Package policy decides what happens after a failure: whether the work is retried and
// when, whether it becomes a dead letter, how severe the alert is, and what the work
// falls back to. Nothing else in the code base decides that.
//
// A decision is a function of the [Attempt] alone. There is no clock and no I/O here,
// and the randomness of the jitter is handed in, so that a decision can be reproduced
// (`pawl policy explain`) and tests can predict it.
package policy

// Policy decides about failures. It is called concurrently, from the hot path
// of every failed delivery: it must not block.
type Policy interface {
	Decide(a Attempt) Decision
}

// Func is a function as a [Policy].
type Func func(a Attempt) Decision

// Decide calls f.
func (f Func) Decide(a Attempt) Decision { return f(a) }

package policy

import (
	"math"
	"time"
)

// Shape is how the delays of a [Backoff] grow.
type Shape uint8

// The shapes.
const (
	Exponential Shape = iota // the range doubles with every attempt
	Linear                   // the range grows by the base with every attempt
)

// String returns the shape's name: exponential or linear.
func (s Shape) String() string {
	if s == Linear {
		return "linear"
	}
	return "exponential"
}

// Backoff says how long to wait before a repetition: never less than Base,
// never more than Max, and with full jitter in between, so that what failed
// together is not repeated together. The zero value does not wait.
type Backoff struct {
	Shape Shape
	Base  time.Duration
	Max   time.Duration
}

// Ceiling is the longest delay after the n-th attempt, counted from 1: Base·2ⁿ
// or Base·(n+1), up to Max.
func (b Backoff) Ceiling(n int) time.Duration {
	n = max(n, 1)
	factor := float64(n + 1)
	if b.Shape == Exponential {
		factor = math.Exp2(float64(n))
	}
	if c := float64(b.Base) * factor; c < float64(b.Max) {
		return time.Duration(c)
	}
	return max(b.Max, 0)
}

// Delay is the delay after the n-th attempt: uniform between Base and
// [Backoff.Ceiling], at the point r, which is at least 0 and less than 1.
func (b Backoff) Delay(n int, r float64) time.Duration {
	ceiling := b.Ceiling(n)
	floor := min(max(b.Base, 0), ceiling)
	return floor + time.Duration(r*float64(ceiling-floor))
}

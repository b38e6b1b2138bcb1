package policy

import (
	"math"
	"math/bits"
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
func (s Shape) String() string { return nameOf(s, "exponential", "linear") }

// Backoff says how long to wait before a retry: never less than Base, never more than
// Max, and with full jitter in between, so that work that failed together is not
// retried together. The zero value does not wait.
type Backoff struct {
	Shape Shape
	Base  time.Duration
	Max   time.Duration
}

// Ceiling is the longest delay after the n-th attempt, counted from 1: Base·2ⁿ
// or Base·(n+1), up to Max. It never falls as n grows.
func (b Backoff) Ceiling(n int) time.Duration {
	n = min(max(n, 1), math.MaxInt32-1)
	base, most := max(b.Base, 0), max(b.Max, 0)
	if b.Shape == Exponential {
		if base <= most>>n {
			return base << n
		}
		return most
	}
	if factor := int64(n + 1); int64(base) <= int64(most)/factor {
		return time.Duration(int64(base) * factor)
	}
	return most
}

// Delay is the delay after the n-th attempt: uniform between Base and
// [Backoff.Ceiling], at the point r, which is at least 0 and less than 1. It is
// reckoned in whole numbers: of two backoffs, the one whose Base and Ceiling are
// no less is no shorter at any point, not even by rounding.
func (b Backoff) Delay(n int, r float64) time.Duration {
	ceiling := b.Ceiling(n)
	floor := min(max(b.Base, 0), ceiling)
	const point = 53 // a float64 below 1 has that many bits behind the point
	hi, lo := bits.Mul64(uint64(r*(1<<point)), uint64(ceiling-floor))
	return floor + time.Duration(hi<<(64-point)|lo>>point)
}

// shorter reports each part by which b may wait for less than old: after some
// attempt, at some point of the range. Nothing is reported exactly when
// b.Delay(n, r) ≥ old.Delay(n, r) for every n and r.
//
// A delay grows with both ends of its range, so the ends are compared. The lower
// one is Base. The upper one, the ceiling, comes to Max in the end if Base is
// not zero; on the way there, an exponential one is never below the linear one
// of the same base. Only a change from exponential to linear has to be followed
// step by step, up to where the old one has reached its Max.
func (b Backoff) shorter(old Backoff, report func(field, why string, args ...any)) {
	if b.Base < old.Base {
		report("backoff.base", "backoff base %v, was %v", b.Base, old.Base)
	}
	if b.Max < old.Max && old.Base > 0 {
		report("backoff.max", "backoff max %v, was %v", b.Max, old.Max)
	}
	if b.Shape != Linear || old.Shape != Exponential {
		return
	}
	for n := 1; ; n++ {
		mine, was := b.Ceiling(n), old.Ceiling(n)
		if mine < min(was, b.Max) {
			report("backoff.shape", "linear backoff waits up to %v after attempt %d, was %v", mine, n, was)
			return
		}
		if was == old.Max || old.Base <= 0 {
			return
		}
	}
}

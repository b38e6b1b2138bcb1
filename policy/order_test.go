package policy

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var justBelowOne = math.Nextafter(1, 0)

// drawNear draws a backoff that is like b in some parts, so that both sides of
// the order are met, and close to its edge.
func drawNear(t *rapid.T, b Backoff) Backoff {
	part := func(label string, was time.Duration) time.Duration {
		switch rapid.IntRange(0, 3).Draw(t, label) {
		case 0:
			return was
		case 1:
			return max(0, was+time.Duration(rapid.Int64Range(-3, 3).Draw(t, label+" by")))
		default:
			return time.Duration(rapid.Int64Range(int64(10*time.Millisecond), int64(100*24*time.Hour)).Draw(t,
				label+" is"))
		}
	}
	n := Backoff{Shape: rapid.SampledFrom([]Shape{Exponential, Linear}).Draw(t, "shape"), Base: part("base", b.Base)}
	n.Max = max(n.Base, part("max", b.Max))
	return n
}

func drawBaseline(t *rapid.T) Backoff {
	b := drawNear(t, Backoff{Exponential, 500 * time.Millisecond, time.Minute})
	if rapid.Bool().Draw(t, "no wait") {
		b.Base = 0
	}
	return b
}

// What the order takes is never shorter: for every attempt, at every point. What
// it refuses is shorter somewhere.
func TestOrderOfBackoffsIsThatOfTheirDelays(t *testing.T) {
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		old := drawBaseline(t)
		b := drawNear(t, old)
		sound := true
		b.shorter(old, func(string, string, ...any) { sound = false })
		if sound {
			accepted++
			n := rapid.OneOf(rapid.IntRange(-1, 70), rapid.IntRange(1, math.MaxInt)).Draw(t, "attempt")
			r := rapid.Float64Range(0, justBelowOne).Draw(t, "random")
			if b.Delay(n, r) < old.Delay(n, r) {
				t.Fatalf("%+v waits %v, %+v waits %v: attempt %d, at %v", b, b.Delay(n, r), old, old.Delay(n, r), n, r)
			}
			return
		}
		refused++
		for _, n := range attemptsToTry() {
			if b.Ceiling(n) < old.Ceiling(n) || b.Delay(n, 0) < old.Delay(n, 0) {
				return
			}
		}
		t.Fatalf("%+v is refused for %+v, but never shorter", b, old)
	})
	if accepted == 0 || refused == 0 {
		t.Fatalf("%d accepted, %d refused: one side was not tested", accepted, refused)
	}
}

func attemptsToTry() []int {
	all := []int{math.MaxInt32}
	for n := range 70 {
		all = append(all, n)
	}
	return all
}

// Full jitter must not let rounding turn the order around.
func TestDelayIsMonotoneToTheNanosecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := Backoff{Exponential, time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "base")), 1 << 58}
		b := old
		b.Base += time.Duration(rapid.Int64Range(0, 5).Draw(t, "more"))
		n := rapid.IntRange(1, 25).Draw(t, "attempt")
		r := rapid.OneOf(rapid.Just(justBelowOne), rapid.Float64Range(0, justBelowOne)).Draw(t, "random")
		if b.Delay(n, r) < old.Delay(n, r) {
			t.Fatalf("%v < %v", b.Delay(n, r), old.Delay(n, r))
		}
	})
}

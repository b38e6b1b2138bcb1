package policy_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/policy"
)

func drawBackoff(t *rapid.T) policy.Backoff {
	base := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "base"))
	return policy.Backoff{
		Shape: rapid.SampledFrom([]policy.Shape{policy.Exponential, policy.Linear}).Draw(t, "shape"),
		Base:  base,
		Max:   base + time.Duration(rapid.Int64Range(0, int64(365*24*time.Hour)).Draw(t, "above base")),
	}
}

func TestBackoffStaysWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBackoff(t)
		n := rapid.IntRange(-1, math.MaxInt32).Draw(t, "attempt")
		r := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
		d := b.Delay(n, r)
		if d < b.Base || d > b.Max || d > b.Ceiling(n) {
			t.Fatalf("%+v after attempt %d: %v, ceiling %v", b, n, d, b.Ceiling(n))
		}
		if b.Ceiling(n) > b.Ceiling(n+1) {
			t.Fatalf("%+v: the ceiling falls from %v to %v", b, b.Ceiling(n), b.Ceiling(n+1))
		}
	})
}

func TestBackoffUsesItsWholeRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := drawBackoff(t)
		n := rapid.IntRange(1, 100).Draw(t, "attempt")
		floor, top := b.Delay(n, 0), b.Delay(n, math.Nextafter(1, 0))
		if floor != min(b.Base, b.Ceiling(n)) || top < b.Ceiling(n)-(time.Microsecond+b.Ceiling(n)/3_600_000_000) {
			t.Fatalf("%+v after attempt %d: from %v to %v, ceiling %v", b, n, floor, top, b.Ceiling(n))
		}
	})
}

func TestBackoffGrows(t *testing.T) {
	exp := policy.Backoff{Shape: policy.Exponential, Base: 500 * time.Millisecond, Max: 30 * time.Second}
	lin := policy.Backoff{Shape: policy.Linear, Base: 200 * time.Millisecond, Max: 10 * time.Second}
	for _, c := range []struct {
		b    policy.Backoff
		n    int
		want time.Duration
	}{
		{exp, 1, time.Second}, {exp, 2, 2 * time.Second}, {exp, 5, 16 * time.Second}, {exp, 6, 30 * time.Second},
		{exp, 5000, 30 * time.Second},
		{lin, 1, 400 * time.Millisecond}, {lin, 9, 2 * time.Second}, {lin, 49, 10 * time.Second},
		{lin, 1 << 30, 10 * time.Second},
		{policy.Backoff{}, 3, 0},
	} {
		if got := c.b.Ceiling(c.n); got != c.want {
			t.Errorf("%v from %v, attempt %d: %v, want %v", c.b.Shape, c.b.Base, c.n, got, c.want)
		}
	}
}

package meter

import (
	"cmp"
	"math"
	"slices"
)

// Percentile returns the value that a share p of sorted lies at or below
// (nearest rank); 0 of nothing.
func Percentile[T cmp.Ordered](sorted []T, p float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	rank := int(math.Ceil(p * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median of values, which it leaves as they are; 0 of nothing.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	if mid := len(s) / 2; len(s)%2 == 1 {
		return s[mid]
	} else {
		return (s[mid-1] + s[mid]) / 2
	}
}

package meter

import (
	"cmp"
	"fmt"
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

// Spread is the median of values, with the lowest and the highest.
type Spread struct{ Median, Lo, Hi float64 }

// SpreadOf returns the spread of values, of which there are some.
func SpreadOf(values []float64) Spread {
	return Spread{Median(values), slices.Min(values), slices.Max(values)}
}

// Ratio prints a spread of ratios.
func (s Spread) Ratio() string {
	return fmt.Sprintf("%s× (%s–%s)", Figure(s.Median), Figure(s.Lo), Figure(s.Hi))
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

// Figure prints three digits that count, with k and M.
func Figure(v float64) string {
	a := math.Abs(v)
	switch {
	case a >= 999_500:
		return digits(v/1e6) + "M"
	case a >= 9_995:
		return digits(v/1e3) + "k"
	default:
		return digits(v)
	}
}

func digits(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a >= 99.95:
		return fmt.Sprintf("%.0f", v)
	case a >= 9.995:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.9995:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}

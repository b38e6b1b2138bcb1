package doc

import (
	"math"
	"testing"
)

// A number that no list reaches, such as a start that a hostile file states, is decimal.
func TestNumeral(t *testing.T) {
	for _, c := range []struct {
		n            int
		format, want string
	}{
		{28, "lowerLetter", "bb"}, {14, "upperRoman", "XIV"}, {7, "decimal", "7"}, {0, "upperLetter", "0"},
		{-3, "lowerLetter", "-3"}, {math.MaxInt32, "lowerLetter", "2147483647"},
	} {
		if got := Numeral(c.n, c.format); got != c.want {
			t.Errorf("%d %s: %q", c.n, c.format, got)
		}
	}
}

package doc

import (
	"strconv"
	"strings"
)

// Numeral writes the number of an item of a list in a format of Word: lowerLetter, upperLetter, lowerRoman, upperRoman,
// else decimal. What such lists do not reach is decimal, too.
func Numeral(n int, format string) string {
	s := strconv.Itoa(n)
	switch {
	case n < 1 || n > 3999:
	case strings.HasSuffix(format, "erLetter"):
		s = strings.Repeat(string(rune('A'+(n-1)%26)), (n-1)/26+1)
	case strings.HasSuffix(format, "erRoman"):
		s = roman(n)
	}
	if strings.HasPrefix(format, "lower") {
		return strings.ToLower(s)
	}
	return s
}

func roman(n int) string {
	var b strings.Builder
	for _, r := range []struct {
		value int
		text  string
	}{{1000, "M"}, {900, "CM"}, {500, "D"}, {400, "CD"}, {100, "C"}, {90, "XC"}, {50, "L"}, {40, "XL"}, {10, "X"},
		{9, "IX"}, {5, "V"}, {4, "IV"}, {1, "I"}} {
		for ; n >= r.value; n -= r.value {
			b.WriteString(r.text)
		}
	}
	return b.String()
}

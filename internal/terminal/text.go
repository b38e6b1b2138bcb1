package terminal

import (
	"cmp"
	"io"
	"strings"
	"unicode"
)

// Clean replaces what a terminal would obey. Lines stay lines.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		}
		if r != '\n' && (unicode.IsControl(r) || r == '\u2028' || r == '\u2029' ||
			unicode.Is(unicode.Bidi_Control, r)) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// Cleaned writes what text writes, cleaned.
func Cleaned(w io.Writer, text func(io.Writer) error) error {
	var b strings.Builder
	err := text(&b)
	_, failed := io.WriteString(w, Clean(b.String()))
	return cmp.Or(err, failed)
}

// OneLine makes a cell of a text from outside.
func OneLine(s string) string {
	return strings.TrimSpace(Clean(strings.ReplaceAll(s, "\n", " ")))
}

// Width is the number of columns that s takes.
func Width(s string) int {
	n := 0
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

func columnsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case wide(r):
		return 2
	}
	return 1
}

// wide reports whether r takes two columns, as East Asian scripts and emoji do.
func wide(r rune) bool {
	return 0x1100 <= r && (r <= 0x115f || 0x2e80 <= r && r <= 0xa4cf || 0xac00 <= r && r <= 0xd7a3 ||
		0xf900 <= r && r <= 0xfaff ||
		0xfe30 <= r && r <= 0xfe6f || 0xff00 <= r && r <= 0xff60 || 0x1f300 <= r && r <= 0x1faff ||
		0x20000 <= r && r <= 0x3fffd)
}

// Cut shortens s to that many columns.
func Cut(s string, columns int) string {
	if Width(s) <= columns {
		return s
	}
	used := 0
	for i, r := range s {
		if used += columnsOf(r); used > columns-1 {
			return s[:i] + "…"
		}
	}
	return s
}

package store

import (
	"strings"
	"unicode/utf8"
)

// Text returns s as text that every store can keep: valid UTF-8 without NUL, at most
// [MaxReason] bytes.
func Text(s string) string {
	s = cut(s) // first, so that cleaning a huge text costs little
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		s = cut(strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD"))
	}
	return s
}

// cut shortens s to MaxReason bytes without cutting a rune in half.
func cut(s string) string {
	if len(s) <= MaxReason {
		return s
	}
	end := MaxReason
	for end > MaxReason-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

package logs

import (
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
)

// TestClockFormatsAsPackageTime: a clock that keeps the second before writes what package time does.
func TestClockFormatsAsPackageTime(t *testing.T) {
	const withMillis = "2006-01-02T15:04:05.000Z07:00"
	var c clock
	for _, in := range []*time.Location{time.UTC, time.FixedZone("", -(3*3600 + 1800)), time.FixedZone("", 8*3600)} {
		for _, nano := range []int64{0, 1, 120_000_000, 120_000_001, 999_999_999, 1_000_000_000, -1} {
			at := time.Unix(1_795_850_000, nano).In(in)
			for range 2 {
				if got, want := string(c.append(nil, at, nanos)), at.Format(time.RFC3339Nano); got != want {
					t.Errorf("%s, want %s", got, want)
				}
				if got, want := string(c.append(nil, at, millis)), at.Format(withMillis); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			}
		}
	}
	if got := string(c.append(nil, time.Date(12026, 1, 2, 3, 4, 5, 6e6, time.UTC), millis)); got != "12026-01-02T03:04:05.006Z" {
		t.Error(got)
	}
}

// TestTextIsQuotedWhereItHasTo: short cuts write what strconv does.
func TestTextIsQuotedWhereItHasTo(t *testing.T) {
	for _, s := range []string{"", "a", "a b", "a=b", `a"b`, `a\b`, `a \b`, "a\nb", "\x7f", "ü ", "ü", "\u00a0", "\u3000",
		"\xff", "\uFFFD", "日 本", "\u200b", "a\x00"} {
		quote := s == "" || strings.ContainsFunc(s, func(r rune) bool {
			return r <= ' ' || r == '"' || r == '=' || r == unicode.ReplacementChar || !unicode.IsPrint(r)
		})
		want := s
		if quote {
			want = strconv.Quote(s)
		}
		if got := string(appendText(nil, s)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

package pawl_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
)

func TestAKindIsBoundedAndPrintable(t *testing.T) {
	for kind, want := range map[string]string{
		"":                        "",
		"Timeout":                 "Timeout",
		"余额不足":                    "余额不足",
		"a\x1b[31mb":              `a\x1b[31mb`,
		"a\xffb":                  `a\xffb`,
		"a\u202eb":                `a\u202eb`,
		strings.Repeat("k", 5000): strings.Repeat("k", pawl.MaxKind),
		strings.Repeat("错", 5000): strings.Repeat("错", pawl.MaxKind/3),
	} {
		got := pawl.Describe(pawl.OfKind(pawl.Kind(kind), errors.New("x"))).Kind
		if string(got) != want || len(got) > pawl.MaxKind || !utf8.ValidString(string(got)) {
			t.Errorf("%.20q: %q, want %q", kind, got, want)
		}
		if again := got.Bounded(); again != got {
			t.Errorf("%q: %q the second time", got, again)
		}
	}
}

// TestNotBefore: a wait that a failure asks for is kept, whatever is said about it outside, and makes it no throttling.
func TestNotBefore(t *testing.T) {
	got := pawl.Describe(pawl.OfKind("Download", pawl.NotBefore(errors.New("x"), time.Minute)))
	if got.After != time.Minute || got.Class != pawl.ClassTransient || got.Kind != "Download" {
		t.Errorf("%+v", got)
	}
}

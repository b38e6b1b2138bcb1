package config

import (
	"strings"
	"testing"
)

// Of a long line only what is around the place is shown.
func TestExcerptOfALongLine(t *testing.T) {
	long := strings.Repeat("a", 500) + "HERE" + strings.Repeat("b", 50000)
	got := excerpt([]string{"short", long, "last"}, 2, 501)
	lines := strings.Split(got, "\n")
	if len(got) > 600 || len(lines) != 4 {
		t.Fatalf("%d bytes:\n%.600s", len(got), got)
	}
	if at := strings.Index(lines[2], "^"); at < 0 || !strings.HasPrefix(lines[1][at:], "HERE") {
		t.Errorf("the caret is elsewhere:\n%s", got)
	}
}

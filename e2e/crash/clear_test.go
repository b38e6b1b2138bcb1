//go:build linux

package crash

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// clearly holds what a command that failed said to three lines: what, why, and what
// to do next. It must end with one of the exit codes, and mention the words.
func clearly(t *testing.T, r result, codes []int, words ...string) {
	t.Helper()
	if !slices.Contains(codes, r.code) {
		t.Errorf("exit code is not one of %v: %v", codes, r)
		return
	}
	lines := strings.Split(strings.TrimSpace(r.stderr), "\n")
	var labels []string
	for _, line := range lines {
		for _, label := range []string{"error: ", "  why:  ", "  next: "} {
			if rest, ok := strings.CutPrefix(line, label); ok && strings.TrimSpace(rest) != "" {
				labels = append(labels, label)
			}
		}
		if len(line) > 1000 {
			t.Errorf("a line of %d bytes is no clear one: %.200s …", len(line), line)
		}
	}
	if want := []string{"error: ", "  why:  ", "  next: "}; !slices.Equal(labels, want) {
		t.Errorf("not three lines of error, why and next: %v", r)
	}
	for _, word := range words {
		if !strings.Contains(r.stderr, word) {
			t.Errorf("%q is not mentioned: %v", word, r)
		}
	}
	if m := regexp.MustCompile(`goroutine \d+|panic:|\.go:\d+|%!`).FindString(r.stderr); m != "" {
		t.Errorf("%q belongs to no message for people: %v", m, r)
	}
	for _, c := range r.stderr {
		if c < ' ' && c != '\n' && c != '\t' {
			t.Errorf("control character %q in the message: %q", c, r.stderr)
			break
		}
	}
}

// code is the exit code of DESIGN for what is to be expected.
const (
	codeFailure   = 1
	codeAway      = 75
	codeUsage     = 2
	codePartly    = 3
	codeConflict  = 5
	codeFound     = 7
	codeForbidden = 8
)

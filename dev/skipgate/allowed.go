package main

import (
	"fmt"
	"path"
	"strings"
)

const module = "github.com/pawl-dev/pawl/"

// allowance is one line of allowed.txt: tests that may be skipped in CI, and why.
type allowance struct{ pkg, test, reason string }

// parseAllowed reads lines of `FOLDER TEST REASON…`, where TEST may be a
// pattern of path.Match. A line without a reason is an error.
func parseAllowed(text string) ([]allowance, error) {
	var list []allowance
	for n, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) < 4 {
			return nil, fmt.Errorf("allowed.txt:%d: want FOLDER TEST and a reason of a few words: %q", n+1, line)
		}
		if _, err := path.Match(fields[1], ""); err != nil {
			return nil, fmt.Errorf("allowed.txt:%d: pattern %q: %w", n+1, fields[1], err)
		}
		list = append(list, allowance{fields[0], fields[1], strings.Join(fields[2:], " ")})
	}
	return list, nil
}

// allowedFor finds the reason why a test may be skipped. A subtest is covered by
// the line of its test.
func allowedFor(list []allowance, name testName) (reason string, ok bool) {
	top, _, _ := strings.Cut(name.test, "/")
	for _, a := range list {
		if module+a.pkg != name.pkg {
			continue
		}
		full, _ := path.Match(a.test, name.test)
		parent, _ := path.Match(a.test, top)
		if full || parent {
			return a.reason, true
		}
	}
	return "", false
}

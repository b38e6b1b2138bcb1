package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// flakyMost is how many tests may need a second chance, subtests not
// counted: more than that is no accident.
const flakyMost = 3

// passAgain reports whether the tests that failed pass when nothing else runs, and names them as flaky if so. Of a test
// with subtests only those run that failed.
func (j job) passAgain(out io.Writer, list []allowance, failed []testName) bool {
	byPackage := map[string][]string{}
	for _, f := range failed {
		byPackage[f.pkg] = append(byPackage[f.pkg], f.test)
	}
	for _, pkg := range slices.Sorted(maps.Keys(byPackage)) {
		tests := innermost(byPackage[pkg])
		fmt.Fprintf(out, "again: %s %s\n", pkg, strings.Join(tests, " "))
		r, once := newReport(out), j
		once.flags = append(slices.Clip(j.flags), "-run="+pattern(tests))
		if sound, err := once.judge(r, list, []string{pkg}); !sound || err != nil || len(r.failed) > 0 {
			return false
		}
		for _, test := range tests {
			fmt.Fprintf(out, "FLAKY: %s.%s failed, and passed when it ran again: repair it\n", pkg, test)
		}
	}
	return true
}

// innermost drops the tests of which a subtest is named, too.
func innermost(tests []string) []string {
	return slices.DeleteFunc(slices.Clone(tests), func(outer string) bool {
		return slices.ContainsFunc(tests, func(t string) bool { return strings.HasPrefix(t, outer+"/") })
	})
}

// pattern is what -run wants for these tests and no others.
func pattern(tests []string) string {
	each := make([]string, len(tests))
	for i, test := range tests {
		parts := strings.Split(test, "/")
		for k, part := range parts {
			parts[k] = "^" + regexp.QuoteMeta(part) + "$"
		}
		each[i] = strings.Join(parts, "/")
	}
	return strings.Join(each, "|")
}

// goTest runs go test -json and hands what it prints to read.
func goTest(args []string, read func(io.Reader) error) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := read(out); err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	return cmd.Wait()
}

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// flakyMost is how many tests may need a second chance: more than that is no
// accident.
const flakyMost = 3

// passAgain reports whether the packages of tests that failed pass when nothing else
// runs, and names the tests as flaky if so. Whole packages: a test that fails because
// of its neighbours fails again.
func (j job) passAgain(out io.Writer, list []allowance, failed []testName) bool {
	var packages []string
	for _, f := range failed {
		if !slices.Contains(packages, f.pkg) {
			packages = append(packages, f.pkg)
		}
	}
	fmt.Fprintf(out, "again: %s\n", strings.Join(packages, " "))
	r := newReport(out)
	if sound, err := j.judge(r, list, packages); !sound || err != nil || len(r.failed) > 0 {
		return false
	}
	for _, f := range failed {
		fmt.Fprintf(out, "FLAKY: %s.%s failed, and passed when its package ran again: repair it\n", f.pkg, f.test)
	}
	return true
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

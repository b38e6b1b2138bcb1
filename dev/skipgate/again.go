package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
)

// flakyMost is how many tests may need a second chance: more than that is no
// accident.
const flakyMost = 3

// passAlone tells whether each of the tests passes three times when nothing else
// runs, and names them as flaky if so.
func (j job) passAlone(out io.Writer, failed []testName) bool {
	if len(failed) > flakyMost {
		return false
	}
	for _, f := range failed {
		fmt.Fprintf(out, "again, alone: %s.%s\n", f.pkg, f.test)
		r := newReport(out)
		args := slices.Concat(slices.DeleteFunc(slices.Clone(j.flags), isCount), []string{"-count=3", "-run=^" + f.test + "$", f.pkg})
		if err := j.test(args, r.read); err != nil || r.broken || len(r.failed) > 0 || r.passed < 3 {
			return false
		}
	}
	for _, f := range failed {
		fmt.Fprintf(out, "FLAKY: %s.%s failed, then passed three times alone: repair it\n", f.pkg, f.test)
	}
	return true
}

func isCount(flag string) bool { return len(flag) >= 7 && flag[:7] == "-count=" }

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

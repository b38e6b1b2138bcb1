// Command skipgate runs `go test`: it prints what `go test` would have printed,
// names every skipped test with its reason, and counts. In CI (CI=true, or
// PAWL_TEST_REQUIRE set) a skip that allowed.txt does not list fails the run,
// because a test that did not run has proved nothing.
//
// With -short it names the slowest packages, and those that took more than one and a
// half times the seconds that budget.txt gives them, times how much slower than the
// budgets the machine is: in CI they fail the run, elsewhere they are only named.
//
// With -again a test that fails, or that had not ended when the time of its package
// was over, is run once more, alone, when all others are done. If it passes it is named
// at the end as FLAKY: a fault to be repaired, of the test or of what it tests, that does
// not stop everybody's work. Not so a data race, a panic, a package that does not build,
// or more than three tests: those fail the run.
//
// With PAWL_RAN a line is added to the file of that name for each test that ended: pass, fail or skip, its folder
// and its name. dev/coverage reads it.
//
// Usage: go run ./dev/skipgate [-again] FLAGS… PACKAGES…, with flags of go test
// as -name=value.
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

//go:embed allowed.txt
var allowedText string

//go:embed budget.txt
var budgetText string

func main() {
	j := job{strict: os.Getenv("CI") == "true" || os.Getenv("PAWL_TEST_REQUIRE") != "", test: goTest,
		ran: os.Getenv("PAWL_RAN")}
	for _, arg := range os.Args[1:] {
		switch {
		case arg == "-again":
			j.again = true
		case strings.HasPrefix(arg, "-"):
			j.flags = append(j.flags, arg)
		default:
			j.packages = append(j.packages, arg)
		}
	}
	budget, err := parseBudget(budgetText)
	if err != nil {
		fmt.Fprintln(os.Stdout, "skipgate:", err)
		os.Exit(2)
	}
	j.budget = budget
	os.Exit(j.run(os.Stdout, allowedText))
}

// job is one call of this command.
type job struct {
	flags, packages []string
	again, strict   bool
	ran             string                                                // where what ran is kept; empty: nowhere
	budget          map[string]time.Duration                              // by package
	test            func(args []string, read func(io.Reader) error) error // go test -json
}

// run does it and returns the exit code: 0 when all is well, 1 when a test failed,
// was skipped where that is not allowed, or when none ran, and 2 when the list of
// allowed skips is broken.
func (j job) run(out io.Writer, allowed string) int {
	list, err := parseAllowed(allowed)
	if err != nil {
		fmt.Fprintln(out, "skipgate:", err)
		return 2
	}
	r := newReport(out)
	sound, err := j.judge(r, list, j.packages)
	if slices.Contains(j.flags, "-short") && r.judgeTimes(j.budget) > 0 && j.strict {
		sound = false
	}
	switch {
	case !sound:
		return 1
	case len(r.failed) > 0:
		if j.again && len(r.failed) <= flakyMost && j.passAgain(out, list, slices.Concat(r.failed, r.subs)) {
			return 0
		}
		return 1
	case err != nil: // and nobody said why
		fmt.Fprintln(out, "skipgate: go test:", err)
		return 1
	}
	return 0
}

// judge runs packages. It reports whether all is well, but for the tests that failed.
func (j job) judge(r *report, list []allowance, packages []string) (sound bool, err error) {
	err = j.test(slices.Concat(j.flags, packages), r.read)
	if j.ran != "" {
		err = errors.Join(err, r.keepRan(j.ran))
	}
	refused := r.listSkips(list, j.strict)
	r.close()
	return refused == 0 && r.passed > 0 && !r.broken, err
}

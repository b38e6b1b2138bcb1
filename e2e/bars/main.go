// Command bars checks from outside what Pawl promises about crashes, idle cost,
// pickup, priority, poison and faults, on the binary built from this tree:
//
//	go run ./e2e/bars [-only 2,5] [-soak 3m] [-seed N]
//
// It prints the measured figures, a line per bar and store, and exits 1 when one
// is missed. PostgreSQL comes from PAWL_TEST_POSTGRES; start it with
// `dev/services run -- go run ./e2e/bars`. Run it on a machine that does nothing
// else: the figures of speed are held to their bars.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bar is a promise and the tests of e2e/crash that check it.
type bar struct {
	number int
	what   string
	tests  []string
}

func bars() []bar {
	return []bar{
		{2, "workers and producers killed, stopped, drained: nothing lost, stuck, out of order or under two leases",
			[]string{"TestSoak"}},
		{5, "an idle worker: < 1 % CPU, < 60 MB; pickup of a lone message from another process: p99 < 20 ms",
			[]string{"TestIdle", "TestPickup"}},
		{6, "priority 100 behind 10,000 of bulk is begun next; nothing starves", []string{"TestUrgent", "TestStarve"}},
		{7, "a handler that kills its process is dead after three lonely rescues, no neighbour is",
			[]string{"TestPoison"}},
		{8, "broken input, wrong DSN, server gone, full disk, damaged or locked file: a clear error, nothing lost",
			[]string{"TestBrokenLines", "TestBodies", "TestHugeBody", "TestOddArguments", "TestFullDisk",
				"TestLimitedFiles", "TestCorruptFile",
				"TestLockedFile", "TestNoAccess", "TestServerGone", "TestWrongDSN", "TestMissingTables"}},
	}
}

func main() {
	only := flag.String("only", "", "numbers of bars, such as 2,5 (default: all)")
	soak := flag.Duration("soak", 3*time.Minute, "how long the chaos of bar 2 lasts, on each store")
	seed := flag.String("seed", "", "repeat the decisions of a run")
	verbose := flag.Bool("v", false, "print everything that the tests say")
	flag.Parse()
	os.Exit(check(os.Stdout, *only, *soak, *seed, *verbose))
}

// check runs the tests of each bar and returns the exit code.
func check(out io.Writer, only string, soak time.Duration, seed string, verbose bool) int {
	env := append(os.Environ(), "PAWL_BARS=1", "PAWL_SOAK="+soak.String())
	if seed != "" {
		env = append(env, "PAWL_E2E_SEED="+seed)
	}
	code := 0
	for _, b := range bars() {
		if only != "" && !slices.Contains(strings.Split(only, ","), strconv.Itoa(b.number)) {
			continue
		}
		began := time.Now()
		v, err := run(out, b, env, verbose)
		if err != nil {
			fmt.Fprintf(os.Stderr, "error: cannot run the tests of bar %d\n  why:  %v\n  next: go test ./e2e/crash\n",
				b.number, err)
			return 1
		}
		fmt.Fprintf(out, "bar %d %s: %s (%v)\n", b.number, v.word(), b.what, time.Since(began).Round(time.Second))
		for _, name := range v.missed {
			fmt.Fprintf(out, "      missed: %s\n", name)
		}
		for _, name := range v.skipped {
			fmt.Fprintf(out, "      not checked: %s\n", name)
		}
		if v.word() != "kept" {
			code = 1
		}
	}
	return code
}

// verdict is what became of a bar's tests.
type verdict struct {
	passed          int
	missed, skipped []string
}

func (v *verdict) word() string {
	switch {
	case len(v.missed) > 0:
		return "MISSED"
	case v.passed == 0 || len(v.skipped) > 0:
		return "NOT CHECKED"
	default:
		return "kept"
	}
}

// event is a line of `go test -json`.
type event struct{ Action, Test, Output string }

// run runs a bar's tests, one after the other, and passes on the figures.
func run(out io.Writer, b bar, env []string, verbose bool) (*verdict, error) {
	pattern := "^(" + strings.Join(b.tests, "|") + ")$"
	cmd := exec.Command("go", "test", "-json", "-count=1", "-timeout=0", "-run", pattern,
		"github.com/pawl-dev/pawl/e2e/crash")
	cmd.Env, cmd.Stderr = env, os.Stderr
	lines, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	v, said := &verdict{}, map[string][]string{}
	scanner := bufio.NewScanner(lines)
	scanner.Buffer(nil, 4<<20)
	for scanner.Scan() {
		var e event
		if err := json.Unmarshal(scanner.Bytes(), &e); err != nil {
			continue // what the build says
		}
		if e.Action == "output" {
			said[e.Test] = append(said[e.Test], e.Output)
			if figure, ok := strings.CutPrefix(e.Output, "bar "); ok || verbose {
				fmt.Fprint(out, "  ", cmp.Or(figure, e.Output))
			}
			continue
		}
		v.note(out, e, said)
	}
	err = cmd.Wait()
	if _, failed := errors.AsType[*exec.ExitError](err); failed && len(v.missed) == 0 {
		v.missed = append(v.missed, "the tests as a whole: "+strings.Join(said[""], ""))
	} else if err != nil && !failed {
		return nil, err
	}
	return v, scanner.Err()
}

// note counts the end of a test; of a failed one that has no parts it shows what
// was said.
func (v *verdict) note(out io.Writer, e event, said map[string][]string) {
	switch {
	case e.Test == "":
	case e.Action == "pass":
		v.passed++
	case e.Action == "skip":
		v.skipped = append(v.skipped, e.Test)
	case e.Action == "fail":
		if slices.ContainsFunc(v.missed, func(name string) bool { return strings.HasPrefix(name, e.Test+"/") }) {
			return
		}
		v.missed = append(v.missed, e.Test)
		for _, line := range said[e.Test] {
			if !strings.HasPrefix(line, "bar ") && !strings.HasPrefix(line, "===") {
				fmt.Fprint(out, "    ", line)
			}
		}
	}
}

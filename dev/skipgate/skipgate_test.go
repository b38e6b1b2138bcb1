package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The streams below are what go test -json prints, less times.
const (
	passing = `{"Action":"start","Package":"m/a"}
{"Action":"run","Package":"m/a","Test":"TestOne"}
{"Action":"output","Package":"m/a","Test":"TestOne","Output":"=== RUN   TestOne\n"}
{"Action":"output","Package":"m/a","Test":"TestOne","Output":"chatter\n"}
{"Action":"pass","Package":"m/a","Test":"TestOne"}
{"Action":"output","Package":"m/a","Output":"PASS\n"}
{"Action":"output","Package":"m/a","Output":"ok  \tm/a\t0.01s\n"}
{"Action":"pass","Package":"m/a"}
`
	skipping = `{"Action":"output","Package":"github.com/pawl-dev/pawl/store/postgres","Test":"TestConforms","Output":"=== RUN   TestConforms\n"}
{"Action":"output","Package":"github.com/pawl-dev/pawl/store/postgres","Test":"TestConforms","Output":"    x_test.go:9: PAWL_TEST_POSTGRES is not set\n"}
{"Action":"output","Package":"github.com/pawl-dev/pawl/store/postgres","Test":"TestConforms","Output":"--- SKIP: TestConforms (0.00s)\n"}
{"Action":"skip","Package":"github.com/pawl-dev/pawl/store/postgres","Test":"TestConforms"}
{"Action":"pass","Package":"github.com/pawl-dev/pawl/store/postgres"}
`
	failing = `{"Action":"output","Package":"m/b","Test":"TestBad","Output":"    b_test.go:3: wrong\n"}
{"Action":"fail","Package":"m/b","Test":"TestBad"}
{"Action":"output","Package":"m/b","Output":"FAIL\tm/b\t0.01s\n"}
{"Action":"fail","Package":"m/b"}
`
	panicking = `{"Action":"run","Package":"m/c","Test":"TestBoom"}
{"Action":"output","Package":"m/c","Test":"TestBoom","Output":"panic: boom\n"}
{"Action":"fail","Package":"m/c"}
`
	hanging = `{"Action":"run","Package":"m/b","Test":"TestBad"}
{"Action":"output","Package":"m/b","Test":"TestBad","Output":"=== PAUSE TestBad\n"}
{"Action":"output","Package":"m/b","Test":"TestOther","Output":"panic: test timed out after 25m0s\n"}
{"Action":"fail","Package":"m/b","Elapsed":1500}
`
	unbuildable = `{"ImportPath":"m/d","Action":"build-output","Output":"d.go:3: syntax error\n"}
{"ImportPath":"m/d","Action":"build-fail"}
{"Action":"output","Package":"m/d","Output":"FAIL\tm/d [build failed]\n"}
{"Action":"fail","Package":"m/d","FailedBuild":"m/d"}
`
	untested = `{"Action":"output","Package":"m/e","Output":"?   \tm/e\t[no test files]\n"}
{"Action":"skip","Package":"m/e"}
`
)

func TestRun(t *testing.T) {
	const list = "store/postgres TestConf* there is a reason for it\n"
	for _, c := range []struct {
		name, in, allowed string
		strict            bool
		code              int
		want              []string
		not               string
	}{
		{"a pass is quiet", passing, "", true, 0, []string{"ok  \tm/a", "1 passed, 0 failed, 0 skipped"}, "chatter"},
		{"a failure is shown", passing + failing, "", false, 1,
			[]string{"b_test.go:3: wrong", "FAIL\tm/b", "1 passed, 1 failed, 0 skipped"}, "chatter"},
		{"a panic is shown", passing + panicking, "", false, 1,
			[]string{"panic: boom", "1 passed, 1 failed, 0 skipped"}, ""},
		{"a build error is shown", passing + unbuildable, "", false, 1, []string{"syntax error", "[build failed]"}, ""},
		{"a line that is no event is shown", "go: no such module\n" + passing, "", false, 0,
			[]string{"go: no such module"}, ""},
		{"a skip is named", passing + skipping, "", false, 0,
			[]string{
				"skipped: github.com/pawl-dev/pawl/store/postgres.TestConforms: x_test.go:9: PAWL_TEST_POSTGRES is not set"},
			"SKIPPED"},
		{"a skip fails CI", passing + skipping, "", true, 1,
			[]string{"SKIPPED, which CI does not allow", "1 passed, 0 failed, 1 skipped"}, ""},
		{"an agreed skip passes CI", passing + skipping, list, true, 0,
			[]string{"as agreed (there is a reason for it)"}, "SKIPPED"},
		{"an agreement covers its folder only", passing + skipping, "store TestConf* there is a reason\n", true, 1,
			[]string{"SKIPPED"}, ""},
		{"a package without tests is no skip", passing + untested, "", true, 0, []string{"0 skipped"}, "SKIPPED"},
		{"nothing ran", untested, "", false, 1, []string{"no test ran"}, ""},
		{"an agreement needs a reason", passing, "store TestX\n", false, 2, []string{"allowed.txt:1"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			j := job{strict: c.strict, test: streams(c.in)}
			if code := j.run(&out, c.allowed); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("output lacks %q:\n%s", want, out.String())
				}
			}
			if c.not != "" && strings.Contains(out.String(), c.not) {
				t.Errorf("output has %q:\n%s", c.not, out.String())
			}
		})
	}
}

// streams is a go test that prints one stream a call and fails when one of its
// tests does.
func streams(all ...string) func([]string, func(io.Reader) error) error {
	return func(_ []string, read func(io.Reader) error) error {
		in := all[0]
		all = all[1:]
		if err := read(strings.NewReader(in)); err != nil || !strings.Contains(in, `"fail"`) {
			return err
		}
		return errors.New("exit status 1")
	}
}

func TestAgain(t *testing.T) {
	two := strings.ReplaceAll(failing, "TestBad", "TestWorse")
	good := `{"Action":"pass","Package":"m/b","Test":"TestBad"}` + "\n"
	race := `{"Action":"output","Package":"m/b","Test":"TestBad","Output":"    testing.go:1: race detected during execution of test\n"}` +
		"\n" + failing
	for _, c := range []struct {
		name    string
		streams []string
		again   bool
		code    int
		want    string
	}{
		{"passes again", []string{passing + failing, good}, true, 0, "FLAKY: m/b.TestBad"},
		{"not asked for", []string{passing + failing}, false, 1, "1 failed"},
		{"fails again", []string{passing + failing, failing}, true, 1, "again: m/b"},
		{"fails otherwise", []string{passing + failing, good + two}, true, 1, "again: m/b"},
		{"skips when it runs again", []string{passing + failing, good + skipping}, true, 1, "SKIPPED"},
		{"does not build any more", []string{passing + failing, unbuildable}, true, 1, "syntax error"},
		{"two of a package", []string{passing + failing + two, good}, true, 0, "FLAKY: m/b.TestWorse"},
		{"too many", []string{passing + strings.Repeat(failing, 4)}, true, 1, "4 failed"},
		{"a race", []string{passing + race}, true, 1, "race detected"},
		{"a panic", []string{passing + failing + panicking}, true, 1, "panic: boom"},
		{"a build error", []string{passing + failing + unbuildable}, true, 1, "syntax error"},
		{"a package that fails without a test", []string{passing + failing + `{"Action":"fail","Package":"m/f"}`}, true,
			1, "1 failed"},
		{"a package that never ended", []string{failing + strings.Join(strings.SplitAfter(passing, "\n")[:5], "")},
			true, 1, "1 failed"},
		{"hangs, and passes again", []string{passing + hanging, good}, true, 0, "FLAKY: m/b.TestBad"},
		{"hangs again", []string{passing + hanging, hanging}, true, 1, "again: m/b"},
		{"hangs, and keeps others from running", []string{passing + strings.ReplaceAll(hanging, "PAUSE", "RUN  ")},
			true, 1, "timed out"},
		{"hangs, and another panics", []string{passing + hanging + panicking}, true, 1, "panic: boom"},
		{"a skip as well", []string{failing + skipping}, true, 1, "SKIPPED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			j := job{again: c.again, strict: true, flags: []string{"-short"}, test: streams(c.streams...)}
			if code := j.run(&out, ""); code != c.code {
				t.Errorf("exit code %d, want %d:\n%s", code, c.code, out.String())
			}
			if !strings.Contains(out.String(), c.want) {
				t.Errorf("output lacks %q:\n%s", c.want, out.String())
			}
		})
	}
}

// TestAgainRunsWhatFailed: the test, with the flags of the run, and nothing else.
func TestAgainRunsWhatFailed(t *testing.T) {
	var calls [][]string
	sub := `{"Action":"fail","Package":"m/b","Test":"TestBad/a.b"}` + "\n"
	play := streams(passing+sub+failing+strings.ReplaceAll(failing, "TestBad", "TestWorse"), passing)
	j := job{flags: []string{"-race", "-count=1"}, packages: []string{"m/a", "m/b"}, again: true,
		test: func(args []string, read func(io.Reader) error) error {
			calls = append(calls, args)
			return play(args, read)
		}}
	j.run(io.Discard, "")
	want := [][]string{{"-race", "-count=1", "m/a", "m/b"}, {"-race", "-count=1", `-run=^TestWorse$|^TestBad$/^a\.b$`, "m/b"}}
	if !slices.EqualFunc(calls, want, slices.Equal) {
		t.Errorf("calls %q, want %q", calls, want)
	}
}

func TestShortExcusesNoSkip(t *testing.T) {
	j := job{flags: []string{"-short"}, strict: true, test: streams(passing + skipping)}
	if code := j.run(io.Discard, ""); code != 1 {
		t.Errorf("exit code %d", code)
	}
}

func TestAgreementCoversSubtests(t *testing.T) {
	list, err := parseAllowed("# why\n\ne2e TestSoak* takes hours\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"TestSoakFaults": true, "TestSoakFaults/redis": true, "TestKill": false} {
		if _, ok := allowedFor(list, testName{module + "e2e", name}); ok != want {
			t.Errorf("allowedFor(%s) = %v, want %v", name, ok, want)
		}
	}
}

func TestAllowedFileIsSound(t *testing.T) {
	if _, err := parseAllowed(allowedText); err != nil {
		t.Fatal(err)
	}
}

func TestBudget(t *testing.T) {
	const slow = `{"Action":"pass","Package":"github.com/pawl-dev/pawl/store","Test":"TestOne","Elapsed":40}
{"Action":"pass","Package":"github.com/pawl-dev/pawl/store","Elapsed":40}
`
	for _, c := range []struct {
		name, budget string
		strict       bool
		flags        []string
		code         int
		want         string
	}{
		{"within", "store 30\n", true, []string{"-short"}, 0, "took 40s: store"},
		{"over", "store 20\n", true, []string{"-short"}, 0, "SLOW: store took 40s"},
		{"no line", "", true, []string{"-short"}, 0, "SLOW: store took 40s"},
		{"far over", "store 9\n", true, []string{"-short"}, 1, "SLOW: store took 40s"},
		{"far over on a busy machine", "store 9\n", false, []string{"-short"}, 0, "SLOW: store took 40s"},
		{"a long run has no budget", "store 20\n", true, nil, 0, "1 passed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			budget, err := parseBudget(c.budget)
			if err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			j := job{strict: c.strict, flags: c.flags, budget: budget, test: streams(slow)}
			if code := j.run(&out, ""); code != c.code || !strings.Contains(out.String(), c.want) {
				t.Errorf("code %d, want %d and %q:\n%s", code, c.code, c.want, &out)
			}
		})
	}
	// A machine that is twice as slow is not held against one package; five packages say how slow it is.
	var events, budgets strings.Builder
	for i, seconds := range []int{40, 40, 40, 80, 200} {
		fmt.Fprintf(&events, `{"Action":"pass","Package":"github.com/pawl-dev/pawl/p%d","Test":"TestOne"}`+"\n"+
			`{"Action":"pass","Package":"github.com/pawl-dev/pawl/p%d","Elapsed":%d}`+"\n", i, i, seconds)
		fmt.Fprintf(&budgets, "p%d 20\n", i)
	}
	budget, err := parseBudget(budgets.String())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	j := job{strict: true, flags: []string{"-short"}, budget: budget, test: streams(events.String())}
	code := j.run(&out, "")
	if code != 1 || strings.Count(out.String(), "SLOW") != 2 || !strings.Contains(out.String(), "SLOW: p4") {
		t.Errorf("code %d; p3 and p4 are slower than the others, and p4 by far:\n%s", code, &out)
	}
	for _, bad := range []string{"store\n", "store x\n", "store 0\n"} {
		if _, err := parseBudget(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// What ran is kept where somebody asks for it.
func TestRanIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ran")
	j := job{ran: path, test: func(_ []string, read func(io.Reader) error) error {
		return read(strings.NewReader(`{"Action":"pass","Package":"github.com/pawl-dev/pawl/store/x","Test":"TestA/b"}
{"Action":"skip","Package":"github.com/pawl-dev/pawl/store/x","Test":"TestC"}
`))
	}}
	j.run(io.Discard, "")
	if got, err := os.ReadFile(path); err != nil || string(got) != "pass store/x TestA/b\nskip store/x TestC\n" {
		t.Errorf("%q, %v", got, err)
	}
}

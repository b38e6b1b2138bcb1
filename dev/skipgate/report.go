package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of a build event
	Test       string
	Output     string
	Elapsed    float64 // seconds, of what ended
}

// testName is what an event is about: a test, or a package where test is empty.
type testName struct{ pkg, test string }

// skip is a test that did not run, with what it said.
type skip struct {
	testName
	reason string
}

// report collects the events of one run.
type report struct {
	out    io.Writer
	output map[testName][]string // of the tests that are running
	open   map[string]bool       // packages that began and did not end
	skips  []skip
	passed int
	failed []testName               // no subtests
	subs   []testName               // subtests that failed
	took   map[string]time.Duration // by package
	fatal  map[string]bool          // packages that said one of fatalSigns
	late   map[string]bool          // packages that ran out of time
	ran    []string                 // how what ended: "pass FOLDER TEST"
	broken bool                     // something failed that is not the verdict of one test
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[testName][]string{}, open: map[string]bool{}, fatal: map[string]bool{},
		late: map[string]bool{}, took: map[string]time.Duration{}}
}

// read takes in the events until the stream ends. A line that is no event, such
// as an error of the go command, is printed as it is.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		var e event
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &e) == nil {
			r.take(e)
		} else {
			fmt.Fprint(r.out, line)
		}
		if err == io.EOF {
			r.broken = r.broken || len(r.open) > 0
			return nil
		}
		if err != nil {
			r.broken = true
			return err
		}
	}
}

func (r *report) take(e event) {
	name := testName{e.Package, e.Test}
	switch e.Action {
	case "start":
		r.open[e.Package] = true
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "build-fail":
		r.broken = true
	case "output":
		r.takeOutput(name, e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.took[e.Package] = time.Duration(e.Elapsed * float64(time.Second))
		}
		r.end(name, e.Action)
	}
}

// keepRan adds what ran to a file.
func (r *report) keepRan(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(append(r.ran, ""), "\n"))
	return errors.Join(err, f.Close())
}

// fatalSigns are the signs that what failed says nothing of one test alone.
var fatalSigns = []string{"DATA RACE", "race detected", "panic: ", "fatal error: "}

// lateSign is what go test says of the tests that were running when their package had run out of time. They hang; those
// that had ended did end.
const lateSign = "panic: test timed out"

// takeOutput prints what a package says at once, but for the bare word PASS,
// and keeps what a test says until it is known whether the test failed. What is said
// when time has run out is printed, too: go test puts it down to any test of the package.
func (r *report) takeOutput(name testName, text string) {
	r.late[name.pkg] = r.late[name.pkg] || strings.Contains(text, lateSign)
	if r.late[name.pkg] {
		fmt.Fprint(r.out, text)
	} else if name.test != "" {
		r.output[name] = append(r.output[name], text)
	} else if text != "PASS\n" {
		r.noteFatal(name.pkg, text)
		fmt.Fprint(r.out, text)
	}
}

// noteFatal notes when a package says one of fatalSigns.
func (r *report) noteFatal(pkg, text string) {
	for _, sign := range fatalSigns {
		r.fatal[pkg] = r.fatal[pkg] || strings.Contains(text, sign)
	}
}

// end closes a test, or a package together with those of its tests that never
// ended: one of them panicked, or ran out of time.
func (r *report) end(name testName, action string) {
	if name.test == "" {
		delete(r.open, name.pkg)
		for open, said := range r.output {
			if open.pkg == name.pkg && action == "fail" {
				r.broken = r.broken || !r.late[name.pkg] || !wasLast(open, said)
				r.end(open, "fail")
			}
		}
		if r.late[name.pkg] {
			delete(r.took, name.pkg) // says nothing of its tests
		}
		one := slices.ContainsFunc(r.failed, func(f testName) bool { return f.pkg == name.pkg })
		r.broken = r.broken || action == "fail" && (!one || r.fatal[name.pkg])
		return
	}
	said := r.output[name]
	delete(r.output, name)
	r.ran = append(r.ran, action+" "+strings.TrimPrefix(name.pkg, module)+" "+name.test)
	switch action {
	case "pass":
		r.passed++
	case "skip":
		r.skips = append(r.skips, skip{name, reason(said)})
	case "fail":
		if strings.Contains(name.test, "/") {
			r.subs = append(r.subs, name)
		} else {
			r.failed = append(r.failed, name)
		}
		text := strings.Join(said, "")
		r.noteFatal(name.pkg, text)
		fmt.Fprint(r.out, text)
	}
}

// wasLast reports whether all other tests of the package had begun when this one hung: it is parallel, and goes on when
// those that are not have ended.
func wasLast(name testName, said []string) bool {
	return strings.Contains(name.test, "/") || slices.Contains(said, "=== PAUSE "+name.test+"\n")
}

// reason is what a skipped test said, without the frame that go test puts around.
func reason(said []string) string {
	var words []string
	for _, line := range said {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- SKIP") {
			words = append(words, line)
		}
	}
	if len(words) == 0 {
		return "no reason given"
	}
	return strings.Join(words, " ")
}

// listSkips prints the skips and returns how many of them are refused.
func (r *report) listSkips(list []allowance, strict bool) (refused int) {
	for _, s := range r.skips {
		why, ok := allowedFor(list, s.testName)
		switch {
		case ok:
			fmt.Fprintf(r.out, "skipped, as agreed (%s): %s.%s\n", why, s.pkg, s.test)
		case strict:
			refused++
			fmt.Fprintf(r.out, "SKIPPED, which CI does not allow: %s.%s: %s\n", s.pkg, s.test, s.reason)
		default:
			fmt.Fprintf(r.out, "skipped: %s.%s: %s\n", s.pkg, s.test, s.reason)
		}
	}
	return refused
}

// close prints the line that says how it went.
func (r *report) close() {
	if r.passed+len(r.failed)+len(r.skips) == 0 {
		fmt.Fprintln(r.out, "no test ran")
	}
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, len(r.failed)+len(r.subs), len(r.skips))
}

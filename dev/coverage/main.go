// Command coverage writes the table of failure scenarios and stores from the tests that ran: out/coverage.md and
// out/coverage.json. It fails where a cell that has to be there has a test that did not run, or failed.
//
//	go run ./dev/coverage RAN           # the report of a run that wrote RAN: PAWL_RAN=RAN go run ./dev/skipgate …
//	go run ./dev/coverage -packages     # where its tests are
//	go run ./dev/coverage -run FOLDER   # the pattern that runs those of a folder
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	code, err := command(os.Args[1:], "out", os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	os.Exit(code)
}

func command(args []string, folder string, out io.Writer) (code int, err error) {
	switch {
	case len(args) == 1 && args[0] == "-packages":
		for _, f := range slices.Sorted(maps.Keys(wanted())) {
			fmt.Fprintln(out, "./"+f)
		}
	case len(args) == 2 && args[0] == "-run":
		fmt.Fprintln(out, strings.Join(wanted()[strings.TrimPrefix(args[1], "./")], "|"))
	case len(args) == 1 && !strings.HasPrefix(args[0], "-"):
		return report(args[0], folder, out)
	default:
		return 2, errors.New("one argument is needed: the file of what ran, or -packages, or -run FOLDER")
	}
	return 0, nil
}

// wanted are the tests of the required stores, by folder.
func wanted() map[string][]string {
	all := map[string][]string{}
	for _, s := range slices.Concat(scenarios, consistency) {
		for _, st := range stores {
			for _, t := range s.testsOf(st.name, st.folder) {
				folder, test, _ := strings.Cut(t, " ")
				if st.required && !slices.Contains(all[folder], test) {
					all[folder] = append(all[folder], test)
				}
			}
		}
	}
	return all
}

func (s *scenario) testsOf(store, folder string) (all []string) {
	if s.refused[store] != "" {
		return nil
	}
	for _, t := range slices.Concat(s.tests, s.of[store]) {
		all = append(all, strings.ReplaceAll(t, "{folder}", folder))
	}
	return all
}

// cell is what became of a scenario on a store.
type cell struct {
	Store string            `json:"store"`
	State string            `json:"state"` // passed, failed, missing, refused, or absent: the store is not there yet
	Why   string            `json:"why,omitempty"`
	Tests map[string]string `json:"tests,omitempty"` // by "FOLDER TEST": pass, fail, skip, or not run
}

type line struct {
	Scenario string `json:"scenario"`
	Expects  string `json:"expects"`
	Metric   string `json:"metric"`
	Alert    string `json:"alert"`
	Cells    []cell `json:"cells"`
}

// report writes both files. The exit code is 1 if there is a hole.
func report(ran, folder string, out io.Writer) (code int, err error) {
	results, err := read(ran)
	if err != nil {
		return 1, err
	}
	if len(results) == 0 {
		return 1, fmt.Errorf("%s has no tests: a report of nothing proves nothing", ran)
	}
	tables := []struct {
		title string
		lines []line
	}{{"Failure scenarios", lines(scenarios, results, nil)},
		{"Consistency of brokers", lines(consistency, results, []string{"Kafka", "Redis"})}}
	holes, text := 0, &strings.Builder{}
	fmt.Fprintf(text, "# Scenarios and stores\n\nFrom %d tests that ran. A cell has the tests that passed for it.\n",
		len(results))
	for _, t := range tables {
		fmt.Fprintf(text, "\n## %s\n\n", t.title)
		holes += table(text, t.lines, out)
	}
	b, err := json.MarshalIndent(map[string]any{"tests": len(results), "holes": holes, "scenarios": tables[0].lines,
		"consistency": tables[1].lines}, "", "  ")
	if err == nil {
		err = errors.Join(os.MkdirAll(folder, 0o755),
			os.WriteFile(filepath.Join(folder, "coverage.json"), append(b, '\n'), 0o644),
			os.WriteFile(filepath.Join(folder, "coverage.md"), []byte(text.String()), 0o644))
	}
	if err != nil {
		return 1, err
	}
	fmt.Fprintf(out, "%s/coverage.md: %d scenarios, %d holes\n", folder, len(scenarios)+len(consistency), holes)
	if holes > 0 {
		return 1, fmt.Errorf("%d cells of the table have no test that passed", holes)
	}
	return 0, nil
}

// read reads what tests ended how. Of several runs of one the last counts.
func read(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("what ran: %w", err)
	}
	defer func() { _ = f.Close() }()
	results := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), " ", 3)
		if len(fields) == 3 {
			results[fields[1]+" "+fields[2]] = fields[0]
		}
	}
	return results, lines.Err()
}

func lines(all []scenario, results map[string]string, only []string) (rows []line) {
	for _, s := range all {
		l := line{Scenario: s.name, Expects: s.expects, Metric: s.metric, Alert: s.alert}
		for _, st := range stores {
			if only == nil || slices.Contains(only, st.name) {
				l.Cells = append(l.Cells, s.cell(st.name, st.folder, st.required, results))
			}
		}
		rows = append(rows, l)
	}
	return rows
}

func (s *scenario) cell(store, folder string, required bool, results map[string]string) cell {
	c := cell{Store: store, State: "passed"}
	if c.Why = s.refused[store]; c.Why != "" {
		c.State = "refused"
		return c
	}
	if _, err := os.Stat(filepath.Join("store", folder)); err != nil && !required {
		c.State = "absent"
		return c
	}
	c.Tests = map[string]string{}
	for _, t := range s.testsOf(store, folder) {
		c.Tests[t] = results[t]
		switch results[t] {
		case "pass":
		case "fail":
			c.State, c.Why = "failed", t
		default:
			c.Tests[t] = "not run"
			if c.State == "passed" {
				c.State, c.Why = "missing", t
			}
		}
	}
	if len(c.Tests) == 0 {
		c.State, c.Why = "missing", "no test is named"
	}
	if !required && c.State == "missing" {
		c.State = "absent"
	}
	return c
}

// table writes lines, and returns how many holes there are.
func table(w io.Writer, rows []line, out io.Writer) (holes int) {
	fmt.Fprint(w, "| scenario | expected |")
	for _, c := range rows[0].Cells {
		fmt.Fprintf(w, " %s |", c.Store)
	}
	fmt.Fprintf(w, " metric | alert, or what fails |\n|%s\n", strings.Repeat("---|", len(rows[0].Cells)+4))
	for _, l := range rows {
		fmt.Fprintf(w, "| %s | %s |", l.Scenario, l.Expects)
		for _, c := range l.Cells {
			text := map[string]string{"absent": "–", "refused": "refused: " + c.Why, "failed": "**FAILED**",
				"missing": "**MISSING**"}[c.State]
			if c.State == "passed" {
				var names []string
				for _, t := range slices.Sorted(maps.Keys(c.Tests)) {
					_, name, _ := strings.Cut(t, " ")
					for _, suite := range []string{"TestEngine/", "TestContract/contract/"} {
						name = strings.TrimPrefix(name, suite)
					}
					names = append(names, "`"+name+"`")
				}
				text = strings.Join(names, ", ")
			}
			if c.State == "failed" || c.State == "missing" {
				holes++
				fmt.Fprintf(out, "HOLE: %s on %s: %s: %s\n", l.Scenario, c.Store, c.State, c.Why)
			}
			fmt.Fprintf(w, " %s |", text)
		}
		fmt.Fprintf(w, " `%s` | %s |\n", l.Metric, l.Alert)
	}
	return holes
}

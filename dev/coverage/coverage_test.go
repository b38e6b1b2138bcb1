package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHoles: a test that did not run, or failed, is a hole, and so is a report of nothing.
func TestHoles(t *testing.T) {
	t.Chdir("../..")
	var all []string
	for folder, tests := range wanted() {
		for _, test := range tests {
			all = append(all, "pass "+folder+" "+test)
		}
	}
	dir := t.TempDir()
	run := func(lines ...string) (code int, out string) {
		ran := filepath.Join(dir, "ran")
		if err := os.WriteFile(ran, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		code, _ = command([]string{ran}, dir, &b)
		return code, b.String()
	}
	if code, out := run(all...); code != 0 || !strings.Contains(out, " 0 holes") {
		t.Fatalf("everything passed: exit code %d\n%s", code, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "coverage.md"))
	if err != nil || !strings.Contains(string(text), "| network fault |") || strings.Contains(string(text), "MISSING") {
		t.Errorf("the report: %v\n%s", err, text)
	}
	if code, out := run(append(all, "fail store/sqlite TestEngine/OrderPerKey")...); code != 1 ||
		!strings.Contains(out, "HOLE: out of order on SQLite: failed") {
		t.Errorf("one failed: exit code %d\n%s", code, out)
	}
	if code, out := run(all[1:]...); code != 1 || !strings.Contains(out, "missing: "+all[0][len("pass "):]) {
		t.Errorf("%s did not run: exit code %d\n%s", all[0], code, out)
	}
	if code, _ := run(); code != 1 {
		t.Errorf("nothing ran: exit code %d", code)
	}
}

// TestNamesAreReal: metrics are exported, alerts have pages, and no scenario is without a metric.
func TestNamesAreReal(t *testing.T) {
	t.Chdir("../..")
	text, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append(scenarios, consistency...) {
		if !strings.Contains(string(text), "| `"+s.metric+"` |") {
			t.Errorf("%s: there is no metric %q", s.name, s.metric)
		}
		if _, err := os.Stat("docs/runbook/" + s.alert + ".md"); s.alert != "CI" && err != nil {
			t.Errorf("%s: there is no page of %q", s.name, s.alert)
		}
	}
}

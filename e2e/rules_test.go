//go:build unix

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const alertsDir = "../deploy/alerts"

// promtool is Prometheus's checker. Under dev/services it is fetched.
func promtool(t *testing.T) string {
	t.Helper()
	if tool, err := exec.LookPath("promtool"); err == nil {
		return tool
	}
	if os.Getenv("PAWL_TEST_SERVICES") == "" {
		t.Skip("promtool is not installed, and PAWL_TEST_SERVICES is not set; dev/services run -- go test …")
	}
	cmd := exec.Command("../dev/services", "tool", "promtool")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("dev/services tool promtool: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// TestAlertRules wants rules without faults, each of which keeps quiet, fires and clears.
func TestAlertRules(t *testing.T) {
	t.Parallel()
	tool, dir := promtool(t), t.TempDir()
	check := exec.Command(tool, "check", "rules", "--lint-fatal", filepath.Join(alertsDir, "pawl.rules.yaml"))
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, out)
	}
	tests := string(read(t, filepath.Join(alertsDir, "pawl.rules.test.yaml")))
	const item = "\n  - name: "
	of := map[string]string{} // the tests of an alert, with its own rules
	for _, test := range strings.Split(tests, item)[1:] {
		name, _, _ := strings.Cut(test, "\n")
		of[name] += item + test
	}
	prove := exec.Command(tool, "test", "rules")
	for name, its := range of {
		for file, text := range map[string]string{
			name + ".rules.yaml": rulesOf(t, name),
			name + ".yaml":       "rule_files: [" + name + ".rules.yaml]\nevaluation_interval: 1m\ntests:" + its + "\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		prove.Args = append(prove.Args, filepath.Join(dir, name+".yaml"))
	}
	if out, err := prove.CombinedOutput(); err != nil {
		t.Errorf("promtool test rules: %v\n%s", err, out)
	}
	for _, a := range alerts(t) {
		about := regexp.MustCompile(`alertname="`+a.name+`".*exp_samples: (.*)\}`).FindAllStringSubmatch(tests, -1)
		fires := slices.ContainsFunc(about, func(m []string) bool { return strings.Contains(m[1], "value: 1") })
		if len(about) < 3 || !fires || !strings.HasSuffix(about[0][1], "[]") {
			t.Errorf("%s: no test shows it quiet, firing and clear: %q", a.name, about)
		}
	}
}

// TestScrapeConfiguration checks the sample on the page about operations.
func TestScrapeConfiguration(t *testing.T) {
	tool, dir := promtool(t), t.TempDir()
	samples := sections(t, "../docs/operations.md")["Alerts"]
	if len(samples) != 1 || samples[0].language != "yaml" {
		t.Fatalf("there should be one sample: %+v", samples)
	}
	for name, text := range map[string]string{"prometheus.yml": samples[0].code,
		"pawl.rules.yaml": string(read(t, filepath.Join(alertsDir, "pawl.rules.yaml")))} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(tool, "check", "config", filepath.Join(dir,
		"prometheus.yml")).CombinedOutput(); err != nil {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
}

// rule is an alert, or a record that alerts are made of.
type rule struct {
	name, text string
	alert      bool
}

// beginsRule stands before each rule of the file.
const beginsRule = "\n      - "

// rules are those of the file, in its order.
func rules(t *testing.T) (all []rule) {
	t.Helper()
	file := string(read(t, filepath.Join(alertsDir, "pawl.rules.yaml")))
	for _, text := range strings.Split(file, beginsRule)[1:] {
		text, _, _ = strings.Cut(text, "\n  - name: ") // the head of the next group
		head, _, _ := strings.Cut(text, "\n")
		kind, name, _ := strings.Cut(head, ": ")
		all = append(all, rule{name, text + "\n", kind == "alert"})
	}
	return all
}

// alerts are the rules that alert.
func alerts(t *testing.T) []rule {
	t.Helper()
	all := slices.DeleteFunc(rules(t), func(r rule) bool { return !r.alert })
	if len(all) < 12 {
		t.Fatalf("only %d alerts were found", len(all))
	}
	return all
}

// rulesOf returns the rules that the alert is made of: most of the time of a proof would go to the others.
func rulesOf(t *testing.T, alert string) string {
	t.Helper()
	all := rules(t)
	at := slices.IndexFunc(all, func(r rule) bool { return r.alert && r.name == alert })
	if at < 0 {
		t.Fatalf("there is no alert %s", alert)
	}
	kept := all[at].text
	for _, r := range slices.Backward(all[:at]) {
		if !r.alert && strings.Contains(kept, r.name) {
			kept = r.text + beginsRule + kept
		}
	}
	return "groups:\n  - name: " + alert + "\n    rules:" + beginsRule + kept
}

// TestEveryAlertHasItsPage wants a page for every alert, and no other pages.
func TestEveryAlertHasItsPage(t *testing.T) {
	var want []string
	readme := string(read(t, "../docs/runbook/README.md"))
	for _, a := range alerts(t) {
		page := a.name + ".md"
		want = append(want, page)
		for _, part := range []string{"severity: ", "summary: ", "description: Fires ", " Clears ",
			"runbook_url: docs/runbook/" + page + "\n"} {
			if !strings.Contains(a.text, part) {
				t.Errorf("%s has no %q", a.name, part)
			}
		}
		if !strings.Contains(readme, "("+page+")") {
			t.Errorf("docs/runbook/README.md does not lead to %s", page)
		}
	}
	slices.Sort(want)
	if got := pages(t); !slices.Equal(got, want) {
		t.Errorf("pages %v\nalerts %v", got, want)
	}
}

// pages are the names of the runbook's pages.
func pages(t *testing.T) (names []string) {
	t.Helper()
	found, err := filepath.Glob("../docs/runbook/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if name := filepath.Base(f); name != "README.md" {
			names = append(names, name)
		}
	}
	return names
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// query is one of a panel, with what Grafana fills in.
type query struct{ panel, expr string }

// queries are those of a dashboard.
func queries(t *testing.T, file string) (all []query) {
	t.Helper()
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(read(t, file), &d); err != nil {
		t.Fatal(err)
	}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			expr := strings.ReplaceAll(q.Expr, "$__rate_interval", "5m")
			all = append(all, query{p.Title, regexp.MustCompile(`\$[a-z]+`).ReplaceAllString(expr, ".+")})
		}
	}
	return all
}

// TestDashboardQueries has Prometheus's checker read every query of the dashboards.
func TestDashboardQueries(t *testing.T) {
	tool := promtool(t)
	files, err := filepath.Glob("../deploy/grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	rules, n := "groups:\n  - name: dashboards\n    rules:\n", 0
	for _, file := range files {
		for _, q := range queries(t, file) {
			n++
			rules += "      - record: query:n" + strconv.Itoa(n) + "\n        expr: " + strconv.Quote(q.expr) + "\n"
		}
	}
	path := filepath.Join(t.TempDir(), "queries.yaml")
	if err := os.WriteFile(path, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "check", "rules", path).CombinedOutput(); err != nil || n < 80 {
		t.Errorf("promtool check rules, %d queries: %v\n%s", n, err, out)
	}
}

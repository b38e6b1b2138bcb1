package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../../.."

// TestCommitted: what is in deploy/grafana is what this program writes.
func TestCommitted(t *testing.T) {
	files, err := filepath.Glob(root + "/deploy/grafana/*.json")
	if err != nil || len(files) != len(boards) {
		t.Fatalf("%d files for %d dashboards: %v", len(files), len(boards), err)
	}
	for _, b := range boards {
		want, err := b.json()
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(root, "deploy/grafana", b.name+".json"))
		if err != nil || string(got) != string(want) {
			t.Errorf("deploy/grafana/%s.json is not what is generated: make dashboards (%v)", b.name, err)
		}
	}
}

// model is what the rules look at of a dashboard.
type model struct {
	Editable   bool
	Templating struct {
		List []struct {
			Name, Label, Type string
			Query             any
			Multi, IncludeAll bool
			AllValue          string
			Refresh           int
			Datasource        struct{ UID string }
		}
	}
	Panels []struct {
		Title, Description string
		Datasource         struct{ UID string }
		FieldConfig        struct{ Defaults struct{ Unit string } }
		Targets            []struct{ Expr, LegendFormat string }
		Links              []struct{ Title, URL string }
	}
}

var (
	rangeOf  = regexp.MustCompile(`\[([^\]]*)\]`)
	counters = regexp.MustCompile(`\b([a-z_]+_total)\b`)
	metrics  = regexp.MustCompile(`\b[a-z0-9_]+\{([^}]*)\}`)
)

// TestRules are the rules of Grafana's dashboard-linter, which cannot be had as a module, and ours: a runbook page
// behind each alert that a panel names.
func TestRules(t *testing.T) {
	for _, b := range boards {
		text, err := b.json()
		if err != nil {
			t.Fatal(err)
		}
		var m model
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		if m.Editable {
			t.Errorf("%s: it can be edited, and the next make dashboards overwrites that", b.name)
		}
		m.checkVariables(t, &b)
		seen := map[string]bool{}
		for i := range m.Panels {
			title := m.Panels[i].Title
			if seen[title] {
				t.Errorf("%s: there are two panels %q", b.name, title)
			}
			seen[title] = true
			m.checkPanel(t, b.name, i)
		}
	}
}

func (m *model) checkVariables(t *testing.T, b *board) {
	t.Helper()
	names := []string{}
	for _, v := range m.Templating.List {
		names = append(names, v.Name)
		if v.Label == "" {
			t.Errorf("%s: variable %s has no label", b.name, v.Name)
		}
		if v.Type == "query" && (!v.Multi || !v.IncludeAll || v.AllValue != ".+" || v.Refresh != 2 ||
			v.Datasource.UID != "${datasource}") {
			t.Errorf("%s: variable %s is not multi with all, from the data source, anew with the range", b.name, v.Name)
		}
	}
	want := []string{"datasource", "job", "instance"}
	if b.by != "" {
		want = append(want, b.by)
	}
	if !slices.Equal(names, want) {
		t.Errorf("%s: the variables are %q, want %q", b.name, names, want)
	}
}

func (m *model) checkPanel(t *testing.T, board string, i int) {
	t.Helper()
	p := &m.Panels[i]
	bad := func(why string) { t.Errorf("%s, panel %q: %s", board, p.Title, why) }
	switch {
	case p.Title == "" || p.Description == "":
		bad("it needs a title and a description")
	case p.FieldConfig.Defaults.Unit == "":
		bad("it needs a unit")
	case p.Datasource.UID != "${datasource}":
		bad("it must use the chosen data source")
	case len(p.Targets) == 0:
		bad("it has no query")
	}
	for _, q := range p.Targets {
		if q.LegendFormat == "" {
			bad("a query has no legend")
		}
		for _, r := range rangeOf.FindAllStringSubmatch(q.Expr, -1) {
			if r[1] != "$__rate_interval" {
				bad("a range is " + r[1] + " and not $__rate_interval")
			}
		}
		for _, c := range counters.FindAllStringIndex(q.Expr, -1) {
			if !strings.HasSuffix(q.Expr[:c[0]], "rate(") && !strings.HasSuffix(q.Expr[:c[0]], "increase(") {
				bad("a counter without rate: " + q.Expr)
			}
		}
		selectors := metrics.FindAllStringSubmatch(q.Expr, -1)
		if len(selectors) == 0 {
			bad("a query has no selector: " + q.Expr)
		}
		for _, s := range selectors {
			if !strings.Contains(s[1], `job=~"$job"`) || !strings.Contains(s[1], `instance=~"$instance"`) {
				bad("a selector without job and instance: " + s[0])
			}
		}
	}
	for _, l := range p.Links {
		if !strings.HasSuffix(l.URL, "/"+l.Title+".md") {
			bad("link " + l.Title + " leads to " + l.URL)
		}
		if _, err := os.Stat(filepath.Join(root, "docs/runbook", l.Title+".md")); err != nil {
			bad("there is no page of " + l.Title)
		}
	}
}

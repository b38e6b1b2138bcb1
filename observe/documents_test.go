package observe

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write the list of metrics in docs/operations.md anew")

// metric is what a registry says about one.
type metric struct {
	name, help string
	labels     []string
}

var described = regexp.MustCompile(
	`^Desc\{fqName: "(.*?)", help: "(.*?)"(?:, unit: ".*")?, constLabels: \{.*?\}, variableLabels: \{(.*)\}\}$`)

// exported returns every metric that a daemon registers, by name.
func exported(t *testing.T) map[string]metric {
	t.Helper()
	reg := NewRegistry()
	if _, err := New(reg); err != nil {
		t.Fatal(err)
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		reg.Describe(descs)
	}()
	all := map[string]metric{}
	for d := range descs {
		m := described.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("%s does not read like a description", d)
		}
		var labels []string
		if m[3] != "" {
			labels = strings.Split(m[3], ",")
		}
		all[m[1]] = metric{m[1], strings.ReplaceAll(m[2], `\"`, `"`), labels}
	}
	// The daemon registers these.
	for _, m := range slices.Concat((&Schedules{}).Metrics(nil), Logs(nil), State(nil, nil),
		[]Metric{ProgramRestarts(nil), ProgramLines(nil), HandlersLate(nil), TraceSpans(nil)}) {
		all[m.Name] = metric{m.Name, m.Help, m.Labels}
	}
	if len(all) < 40 {
		t.Fatalf("only %d metrics are registered", len(all))
	}
	return all
}

// always are labels that Prometheus adds, or a histogram has.
var always = []string{"instance", "job", "le"}

var (
	named   = regexp.MustCompile(`\b((?:pawl|policy|process|go|log)_[a-z_]+[a-z])\b(?:\{([^{}]*)\})?`)
	matcher = regexp.MustCompile(`([a-z_]+)(?:=~?|!=|!~)"`)
	// notMetrics look like metrics and are none: parameters of a URL, a function in SQL, or those of a pipeline, whose
	// package has a test for them.
	notMetrics = regexp.MustCompile(`^(log_message$|pawl_(schema$|max_conns$|poll_only$|send$|wecom_))`)
)

// ofPipeline are dashboards of metrics that pipelines export, whose packages have tests for them.
var ofPipeline = regexp.MustCompile(`grafana/(project|forward|wecom)[.]json$`)

// misnamed returns what a text says about metrics that is not so, and how many it
// names. Names with a colon in front are recorded by rules.
func misnamed(all map[string]metric, text string) (wrong []string, names int) {
	for _, at := range named.FindAllStringSubmatchIndex(text, -1) {
		name := text[at[2]:at[3]]
		if notMetrics.MatchString(name) || at[2] > 0 && text[at[2]-1] == ':' {
			continue
		}
		names++
		m, ok := all[name]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, cut := strings.CutSuffix(name, suffix); cut && !ok {
				m, ok = all[base]
			}
		}
		if !ok {
			wrong = append(wrong, "there is no metric "+name)
			continue
		}
		if at[4] < 0 {
			continue
		}
		for _, l := range matcher.FindAllStringSubmatch(text[at[4]:at[5]], -1) {
			if !slices.Contains(m.labels, l[1]) && !slices.Contains(always, l[1]) {
				wrong = append(wrong, fmt.Sprintf("%s has no label %s", name, l[1]))
			}
		}
	}
	return wrong, names
}

// TestDocumentsNameRealMetrics holds rules and documents to what is exported.
func TestDocumentsNameRealMetrics(t *testing.T) {
	all, names := exported(t), 0
	var files []string
	for _, pattern := range []string{"../deploy/alerts/*.yaml", "../deploy/grafana/*.json",
		"../docs/*.md", "../docs/runbook/*.md", "../*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: nothing is there: %v", pattern, err)
		}
		files = append(files, found...)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		wrong, n := misnamed(all, strings.ReplaceAll(string(text), `\"`, `"`)) // as it is in JSON
		for _, w := range wrong {
			t.Errorf("%s: %s", name, w)
		}
		names += n
		if n == 0 && strings.Contains(name, "/deploy/") && !ofPipeline.MatchString(name) {
			t.Errorf("%s: no metric was found", name)
		}
	}
	if names < 60 {
		t.Errorf("only %d names of metrics were found", names)
	}
}

func TestMisnamedMetricsAreFound(t *testing.T) {
	all := exported(t)
	text := `rate(pawl_nothing_total[5m]) pawl_handler_slots{queue="a"} pawl_queue_wait_seconds_bucket{topic="a",le="1"} topic:pawl_x:max`
	wrong, n := misnamed(all, text)
	if n != 3 || len(wrong) != 2 || !strings.Contains(wrong[0], "pawl_nothing_total") ||
		!strings.Contains(wrong[1], "no label queue") {
		t.Errorf("%d names, wrong: %q", n, wrong)
	}
}

// TestOperationsPageHasTheWordsOfTheLog: a field of the log is found there, with the word that the documents use.
func TestOperationsPageHasTheWordsOfTheLog(t *testing.T) {
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{Time, Level, Module, Message, EventType, Phase, ErrorKind, TraceID, TaskID, ModuleID,
		RequestID, QueueTopic, PolicyAction, PolicyReason, PolicyDegrade, RetryCount, RetryMax, NodeID} {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("the page does not have %s", name)
		}
	}
}

// TestOperationsPageListsTheMetrics keeps the list on the page what it should be.
func TestOperationsPageListsTheMetrics(t *testing.T) {
	const page, begin, end = "../docs/operations.md", "<!-- metrics: go test ./observe -update -->\n",
		"<!-- end of metrics -->"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the list", page)
	}
	want := before + begin + listed(exported(t)) + end + after
	if want == string(text) {
		return
	}
	if !*update {
		t.Errorf("%s does not list what is exported: go test ./observe -update", page)
	} else if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// listed is a table of our own metrics.
func listed(all map[string]metric) string {
	var rows []string
	for _, m := range all {
		if strings.HasPrefix(m.name, "pawl_") || strings.HasPrefix(m.name, "policy_") {
			rows = append(rows, fmt.Sprintf("| `%s` | %s | %s |\n", m.name, strings.Join(m.labels, ", "), m.help))
		}
	}
	slices.Sort(rows)
	return "| metric | labels | |\n|---|---|---|\n" + strings.Join(rows, "")
}

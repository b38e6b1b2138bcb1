//go:build unix

package e2e

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// scrape is what a daemon exported: the values of series, and which of them count up.
// One that did not answer has none.
type scrape struct {
	values   map[string]float64
	counters map[string]bool
}

// ours is how the names of a daemon's series begin.
var ours = []string{"pawl_", "policy_", "forward_", "outbox_", "dead_letter_outbox_", "log_", "process_"}

// scrape reads the metrics, when what is counted on a slow clock was counted lately.
func (in *incident) scrape() scrape {
	s := scrape{map[string]float64{}, map[string]bool{}}
	client := http.Client{Timeout: 10 * time.Second}
	reply, err := client.Get("http://" + in.address + "/metrics")
	if err != nil {
		return s
	}
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		return s
	}
	counts := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 4 && words[1] == "TYPE":
			counts[words[2]] = words[3] != "gauge"
		case slices.ContainsFunc(ours, func(begin string) bool { return strings.HasPrefix(line, begin) }):
			at := strings.LastIndex(line, " ")
			series := line[:at]
			name, _, _ := strings.Cut(series, "{")
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				if base := strings.TrimSuffix(name, suffix); counts[base] {
					name = base
				}
			}
			if s.values[series], err = strconv.ParseFloat(strings.TrimSpace(line[at:]), 64); err != nil {
				in.Fatal(err)
			}
			s.counters[series] = counts[name]
		}
	}
	return s
}

// Minutes of each state in a proof: calm, ill, well again.
const calmFor, illFor, wellFor = 40, 40, 90

// prove shows that the alert keeps quiet, fires and clears by what the daemon exported
// before, during and after an incident, as if each had lasted: gauges stand still,
// counters go on as they went.
func prove(t *testing.T, alert string, calm, ill, well scrape) {
	t.Helper()
	tool := promtool(t)
	if len(calm.values) == 0 && len(ill.values) == 0 || len(well.values) == 0 {
		t.Fatal("there is nothing to prove anything by")
	}
	var text strings.Builder
	_, _ = fmt.Fprintf(&text,
		"rule_files: [pawl.rules.yaml]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n")
	rules := rulesOf(t, alert)
	text.WriteString(inputs(rules, calm, ill, well))
	up := map[bool]int{true: 1}
	_, _ = fmt.Fprintf(&text, "      - {series: 'up{job=\"pawl\",instance=\"a\"}', values: '%dx%d %dx%d %dx%d'}\n",
		up[len(calm.values) > 0], calmFor-1, up[len(ill.values) > 0], illFor-1, 1, wellFor)
	text.WriteString("    promql_expr_test:\n")
	for _, at := range []struct {
		minute int
		sample string
	}{{calmFor - 1, "[]"}, {calmFor + within(t, alert), "[{value: 1}]"}, {calmFor + illFor + 80, "[]"}} {
		if strings.HasSuffix(alert, "LimitPinned") && at.sample != "[]" {
			at.minute += 15 // its window is longer
		}
		_, _ = fmt.Fprintf(&text,
			"      - {eval_time: %dm, expr: 'group(ALERTS{alertname=\"%s\",alertstate=\"firing\"})', exp_samples: %s}\n",
			at.minute, alert, at.sample)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"proof.yaml": text.String(), "pawl.rules.yaml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(tool, "test", "rules", "proof.yaml")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("by what the daemon exported, %s does not keep quiet, fire and clear: %v\n%s", alert, err, out)
		if err := os.WriteFile(filepath.Join(t.ArtifactDir(), "proof.yaml"), []byte(text.String()), 0o600); err != nil {
			t.Error(err)
		}
	}
}

// within is after how many minutes an alert fires at the latest: five, if docs/slo.md says that it names a fault.
func within(t *testing.T, alert string) int {
	t.Helper()
	_, faults, _ := strings.Cut(string(read(t, "../docs/slo.md")), "\n## Faults\n")
	if strings.Count(faults, "](runbook/") < 19 {
		t.Fatal("docs/slo.md has lost its table of faults")
	}
	if strings.Contains(faults, "["+alert+"](runbook/") {
		return 5
	}
	return 12
}

// inputs are the series that the rules name, in promtool's form.
func inputs(rules string, calm, ill, well scrape) string {
	var text strings.Builder
	series := maps.Clone(ill.values)
	maps.Copy(series, calm.values)
	maps.Copy(series, well.values)
	for _, s := range slices.Sorted(maps.Keys(series)) {
		if name, _, _ := strings.Cut(s, "{"); strings.Contains(rules, name) {
			_, _ = fmt.Fprintf(&text, "      - {series: '%s', values: '%s'}\n", labelled(s), course(s, calm, ill, well))
		}
	}
	return text.String()
}

// labelled is a series with the labels that a scrape adds.
func labelled(series string) string {
	name, labels, _ := strings.Cut(strings.TrimSuffix(series, "}"), "{")
	if labels != "" {
		labels += ","
	}
	return name + "{" + labels + `job="pawl",instance="a"}`
}

// course is how a series went, in promtool's form.
func course(s string, calm, ill, well scrape) string {
	var parts []string
	last := 0.0
	for _, phase := range []struct {
		scrape
		minutes int
	}{{calm, calmFor - 1}, {ill, illFor - 1}, {well, wellFor}} {
		v, there := phase.values[s]
		switch {
		case !there: // Prometheus marks a series that a scrape does not have any more
			parts = append(parts, fmt.Sprintf("stale _x%d", phase.minutes))
		case phase.counters[s] && v > last && len(parts) == 1:
			parts = append(parts, fmt.Sprintf("%g+%gx%d", v, v-last, phase.minutes))
			last = v + (v-last)*float64(phase.minutes)
		case phase.counters[s]: // it stands still, or begins anew
			last = max(last, v)
			parts = append(parts, fmt.Sprintf("%gx%d", last, phase.minutes))
		default:
			parts = append(parts, fmt.Sprintf("%gx%d", v, phase.minutes))
		}
	}
	return strings.Join(parts, " ")
}

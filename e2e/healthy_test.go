//go:build unix

package e2e

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// healthy is a daemon whose work goes well: two thirds have a key, one message in two hundred fails once, a limit holds
// bursts back, and schedules tick.
const healthy = `listen: 127.0.0.1:0
api: { listen: "127.0.0.1:0" }
topics:
  mail: { handler: exec, command: "cat >/dev/null" }
  orders: { handler: exec, order: key, command: "cat >/dev/null; case $PAWL_ATTEMPT/$PAWL_ID in
            1/*00) echo 'connection refused' >&2; exit 75;; esac" }
  slow: { handler: exec, command: "cat >/dev/null; sleep 1", concurrency: 4, limit: 2/s }
schedules:
  tick: { every: 10s, topic: mail, json: '{"report":"tick"}' }
`

// TestNoAlertInAHealthyHour scrapes a daemon under steady work each 15 s, as Prometheus does, and wants no alert at any
// minute. It lasts an hour with PAWL_BARS, and a minute otherwise.
func TestNoAlertInAHealthyHour(t *testing.T) {
	t.Parallel()
	hour := time.Minute
	if os.Getenv("PAWL_BARS") != "" {
		hour = time.Hour
	}
	for name, store := range map[string]func(*incident){"sqlite": func(*incident) {}, "postgres": sharedServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := newIncident(t, healthy)
			store(in)
			in.start()
			var scrapes []scrape
			const every = 15 * time.Second
			next := time.Now()
			for i, end := 0, next.Add(hour); time.Now().Before(end); i++ {
				in.must(fmt.Sprintf(`for i in $(seq %d %d); do
						echo "{\"topic\":\"mail\",\"body\":\"$i\"}"
						echo "{\"topic\":\"orders\",\"id\":\"o$i\",\"key\":\"c$((i %% 7))\",\"body\":\"$i\"}"
						echo "{\"topic\":\"orders\",\"key\":\"d$((i %% 5))\",\"body\":\"$i\"}"
					done | pawl send --jsonl -q
					seq 20 | sed 's/.*/{"topic":"slow","body":"&"}/' | pawl send --jsonl -q`, 50*i, 50*i+49))
				if s := in.scrape(); len(s.values) > 0 || i > 0 {
					scrapes = append(scrapes, s)
				}
				next = next.Add(every)
				time.Sleep(time.Until(next))
			}
			if out := firing(t, scrapes, every); out != "" {
				t.Errorf("an alert fires though all is well:\n%s", out[:min(len(out), 4000)])
			}
			ill := scrapes[len(scrapes)-1]
			ill.values["pawl_ready"] = 0
			if out := firing(t, slices.Repeat([]scrape{ill}, 40), every); !strings.Contains(out, "PawlNotReady") {
				t.Errorf("no alert says that a daemon is not ready:\n%s", out)
			}
		})
	}
}

// firing is what promtool says of alerts that fire at a minute of what was scraped; empty: none does.
func firing(t *testing.T, scrapes []scrape, every time.Duration) string {
	t.Helper()
	values := map[string][]string{}
	for i, s := range scrapes {
		for name := range s.values {
			for len(values[name]) < i {
				values[name] = append(values[name], "_")
			}
			values[name] = append(values[name], fmt.Sprint(s.values[name]))
		}
	}
	file, dir := string(read(t, filepath.Join(alertsDir, "pawl.rules.yaml"))), t.TempDir()
	var text strings.Builder
	_, _ = fmt.Fprintf(&text,
		"rule_files: [pawl.rules.yaml]\nevaluation_interval: 15s\ntests:\n  - interval: %v\n    input_series:\n", every)
	for _, s := range slices.Sorted(maps.Keys(values)) {
		if name, _, _ := strings.Cut(s, "{"); strings.Contains(file, name) {
			_, _ = fmt.Fprintf(&text, "      - {series: '%s', values: '%s'}\n", labelled(s), strings.Join(values[s], " "))
		}
	}
	_, _ = fmt.Fprintf(&text, "      - {series: 'up{job=\"pawl\",instance=\"a\"}', values: '1x%d'}\n    promql_expr_test:\n",
		len(scrapes))
	for at := time.Minute; at < time.Duration(len(scrapes))*every; at += time.Minute {
		_, _ = fmt.Fprintf(&text,
			"      - {eval_time: %v, expr: 'ALERTS{alertstate=\"firing\"}', exp_samples: []}\n", at)
	}
	for name, text := range map[string]string{"healthy.yaml": text.String(), "pawl.rules.yaml": file} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(promtool(t), "test", "rules", "healthy.yaml")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	t.Logf("%d scrapes of %d series", len(scrapes), len(values))
	if err == nil {
		return ""
	}
	return string(out)
}

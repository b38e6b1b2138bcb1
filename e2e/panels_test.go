//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// busy has something of all that a daemon counts, whatever its store.
const busy = `
limits: {api: {rate: 1000/s}}
topics:
  mail: {handler: exec, command: sh ./handle.sh, concurrency: 4, limits: [api], objective: 100ms}
  odd: {handler: pipe, command: sh ./odd.sh, concurrency: 1}
schedules: {tick: {every: 1s, topic: mail}}
traces: {otlp: "http://127.0.0.1:9"}
logger: {outputs: [{type: console}, {type: file, path: pawl.log}]}
`

// unhurt are panels about what happens to nobody in this drill.
var unhurt = []string{"Verdicts refused", "Fallback store", "Events that were dropped"}

// TestPanelsHaveData wants an answer to every query of the dashboards that each daemon has figures for, by what one
// exported while it worked.
func TestPanelsHaveData(t *testing.T) {
	tool, in := promtool(t), newIncident(t, busy)
	behaves("grep -q bad && exit 65; sleep 0.1\n")(in)
	in.write("odd.sh", "echo no verdict; read -r line; exit 3\n")
	in.start()
	calm := in.scrape()
	in.must("for i in $(seq 12); do echo '{\"body\":\"good\",\"key\":\"k\"}'; echo '{\"body\":\"bad\"}'; done | " +
		"pawl send mail --jsonl -q && pawl send odd one -q")
	for _, series := range []string{"pawl_program_restarts_total", "pawl_program_odd_lines_total",
		"pawl_schedule_ticks_total", "pawl_slowest_key_p99_seconds", `pawl_trace_spans_total.result="failed"`} {
		in.until("curl -sS "+in.address+"/metrics | awk '/^"+series+"/ {if ($2 > 0) print \"there\"}'", "there")
	}
	depth(in, "dead", 12)
	drilled := in.scrape()
	var asked strings.Builder
	for _, board := range []string{"runtime", "log"} {
		for _, q := range queries(t, "../deploy/grafana/"+board+".json") {
			if !slices.Contains(unhurt, q.panel) {
				_, _ = fmt.Fprintf(&asked, "      - {eval_time: %dm, expr: %s, exp_samples: [{value: 1}]}\n", calmFor+12,
					strconv.Quote("group("+q.expr+")"))
			}
		}
	}
	if n := strings.Count(asked.String(), "\n"); n < 35 {
		t.Fatalf("only %d queries are asked", n)
	}
	path := filepath.Join(t.TempDir(), "panels.yaml")
	text := "evaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n" +
		inputs(asked.String(), calm, drilled, drilled) + "    promql_expr_test:\n" + asked.String()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(tool, "test", "rules", path).CombinedOutput(); err != nil {
		t.Errorf("panels without data: %v\n%s", err, out)
	}
}

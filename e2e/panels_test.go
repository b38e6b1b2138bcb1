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
	"sync"
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
events: {file: /dev/full}
`

// drill is what a daemon does so that the panels of dashboards have something to show: all but some, or only some.
type drill struct {
	fault
	boards, but, only []string
}

func drills() map[string]drill {
	refused := crawling()["PawlCrawlStandsStill"]
	return map[string]drill{
		"runtime": {fault: fault{config: busy, store: func(in *incident) {
			needsFullDevice(in)
			behaves("grep -q bad && exit 65; sleep 0.1\n")(in)
			in.write("odd.sh", "echo no verdict; read -r line; exit 3\n")
		}, cause: everything}, boards: []string{"runtime", "log"},
			but: []string{"Verdicts refused", "Fallback store"}},
		"refused": {fault: also(faults()["PawlLeasesLost"], func(in *incident) {
			in.until(metric(in, "pawl_deliveries_refused_total"), "mail")
		}), boards: []string{"runtime"}, only: []string{"Verdicts refused"}},
		"spilled": {fault: spilled()["PawlSpillActive"], boards: []string{"runtime"}, only: []string{"Fallback store"}},
		"kafka": {fault: fault{config: obeys, store: kafkaStore("partitions=1"), cause: func(in *incident) {
			brokenTopics()["PawlKafkaLostToRetention"].cause(in)
			brokenTopics()["PawlKafkaDeadLetters"].cause(in)
		}}},
		"project": {fault: projecting()["PawlOutboxThrottled"]},
		"wecom": {fault: also(wecom()["PawlWecomBudget"], func(in *incident) {
			in.until(metric(in, "pawl_wecom_cursor_age_seconds"), "kefu") // it is looked at every ten seconds
		})},
		"forward": {fault: also(telegram()["PawlForwardUrgentLate"], func(in *incident) {
			in.must(`curl -fsS $(cat sim.address)/control/message ` +
				`-d '{"chat": -1000000000001, "from": 1001, "text": "/help", "count": 1}'`)
			in.until(metric(in, "forward_answer_seconds_count"), "tg")
		})},
		"crawl": {fault: also(refused, func(in *incident) {
			refused.mend(in)
			in.must("pawl dead replay --topic shop.request --yes")
			in.until(metric(in, "pawl_deliveries_settled_total"), `verdict="ack"`)
			in.until(metric(in, "pawl_failures_ignored_total"), "shop") // the page has no price
		})},
	}
}

// also does more when what is wrong has happened.
func also(f fault, more func(*incident)) fault {
	cause := f.cause
	f.cause = func(in *incident) { cause(in); more(in) }
	return f
}

// TestPanelsHaveData wants an answer to every query of the dashboards, by what a daemon exported while it worked.
func TestPanelsHaveData(t *testing.T) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for name, d := range drills() {
		if d.boards == nil {
			d.boards = []string{name}
		}
		wg.Go(func() { t.Run(name, func(t *testing.T) { d.ask(t) }) })
	}
}

// everything is done by the daemon of busy.
func everything(in *incident) {
	in.must("for i in $(seq 12); do echo '{\"body\":\"good\",\"key\":\"k\"}'; echo '{\"body\":\"bad\"}'; done | " +
		"pawl send mail --jsonl -q && pawl send odd one -q")
	for _, series := range []string{"pawl_program_restarts_total", "pawl_program_odd_lines_total",
		"pawl_schedule_ticks_total", "pawl_slowest_key_p99_seconds", `pawl_trace_spans_total.result="failed"`} {
		in.until("curl -sS "+in.address+"/metrics | awk '/^"+series+"/ {if ($2 > 0) print \"there\"}'", "there")
	}
	depth(in, "dead", 12)
}

func (d *drill) ask(t *testing.T) {
	tool, in := promtool(t), newIncident(t, d.config)
	if d.store != nil {
		d.store(in)
	}
	calm := scrape{}
	if !d.down {
		in.start()
		calm = in.scrape()
	}
	d.cause(in)
	drilled := in.scrape()
	for _, board := range d.boards {
		var asked strings.Builder
		for _, q := range queries(t, "../deploy/grafana/"+board+".json") {
			if !slices.Contains(d.but, q.panel) && (d.only == nil || slices.Contains(d.only, q.panel)) {
				_, _ = fmt.Fprintf(&asked, "      - {eval_time: %dm, expr: %s, exp_samples: [{value: 1}]}\n", calmFor+12,
					strconv.Quote("group("+q.expr+")"))
			}
		}
		if n := strings.Count(asked.String(), "\n"); n < max(len(d.only), 1) || d.only == nil && n < 6 {
			t.Errorf("%s: only %d queries are asked", board, n)
		}
		path := filepath.Join(t.TempDir(), "panels.yaml")
		text := "evaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n" +
			inputs(asked.String(), calm, drilled, drilled) + "    promql_expr_test:\n" + asked.String()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(tool, "test", "rules", path).CombinedOutput(); err != nil {
			t.Errorf("%s has panels without data: %v\n%s", board, err, out)
		}
	}
}

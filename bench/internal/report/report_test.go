package report

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/bench/internal/plan"
	"github.com/pawl-dev/pawl/bench/internal/work"
)

// Other programs read these names.
func TestLineHasItsNames(t *testing.T) {
	l := Line{Suite: "postgres", Work: "steady", Arm: "pawl", Round: 1, Versions: map[string]string{"go": "1"},
		Outcome: work.Outcome{N: 2000, PerSecond: 500, P50: new(1.5), P99: new(3.0), RSS: 7,
			Costs: meter.Costs{CPU: new(2.0), WAL: new(2.0), Dead: new(3.0), Commits: new(0.05)}}}
	dir := t.TempDir()
	for range 2 {
		if err := Append(dir, &l); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "postgres.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(b)), "\n")
	if len(rows) != 2 {
		t.Fatalf("%d lines instead of 2", len(rows))
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(rows[0]), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"suite": "postgres", "work": "steady", "arm": "pawl", "round": 1.0, "n": 2000.0, "per_second": 500.0,
		"p50_ms": 1.5, "p99_ms": 3.0, "wal_bytes_per_job": 2.0, "dead_tuples_per_job": 3.0,
		"commits_per_job": 0.05, "cpu_seconds_per_1k": 2.0, "rss_bytes": 7.0,
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %v, want %v", k, got[k], v)
		}
	}
	if v, ok := got["versions"].(map[string]any); !ok || v["go"] != "1" {
		t.Errorf("versions are %v", got["versions"])
	}
}

func TestLineLeavesOutWhatWasNotMeasured(t *testing.T) {
	l := Line{Outcome: work.Outcome{N: 10, Costs: meter.CPUCosts(time.Second, 10)}}
	b, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p50_ms", "p99_ms", "wal_bytes_per_job", "dead_tuples_per_job", "commits_per_job"} {
		if strings.Contains(string(b), name) {
			t.Errorf("%s is in %s", name, b)
		}
	}
}

// The best peer is the one with the best median, and a ratio is that of a
// round, so that what slows one round down slows both.
func TestRatioIsToTheBestPeerRoundByRound(t *testing.T) {
	var lines []*Line
	add := func(arm string, rates ...float64) {
		for i, r := range rates {
			lines = append(lines, &Line{Arm: arm, Round: i + 1, Outcome: work.Outcome{PerSecond: r, P99: new(1000 / r)}})
		}
	}
	add("pawl", 300, 600, 100)
	add("river", 100, 100, 50)
	add("river-defaults", 99, 1, 1000)
	rate := metric{"jobs/s", true, func(l *Line) *float64 { return &l.PerSecond }}
	p99 := metric{"p99 ms", false, func(l *Line) *float64 { return l.P99 }}
	for _, m := range []metric{rate, p99} {
		r, ok := m.compare(lines)
		want := Ratio{"river", meter.Spread{Median: 3, Lo: 2, Hi: 6}}
		if !ok || r != want {
			t.Errorf("%s: compare = %+v, %v; want %+v", m.name, r, ok, want)
		}
	}
	if _, ok := rate.compare(lines[:3]); ok {
		t.Error("compare without a peer succeeded")
	}
	if _, ok := rate.compare(lines[3:]); ok {
		t.Error("compare without pawl succeeded")
	}
}

// On Kafka each of our arms is compared with each peer, and with what is possible.
func TestTableComparesEveryArmOnKafka(t *testing.T) {
	wk := plan.Work{Suite: plan.Kafka, Name: "10ms", Kind: plan.Consume, Takes: 10 * time.Millisecond,
		Arms: []string{plan.Raw, plan.PawlStore, plan.PawlDispatch, plan.ParallelConsumer}}
	var lines []*Line
	for arm, rate := range map[string]float64{plan.Raw: 20_000, plan.PawlStore: 10_000, plan.PawlDispatch: 12_000,
		plan.ParallelConsumer: 2000} {
		lines = append(lines, &Line{Suite: wk.Suite, Work: wk.Name, Arm: arm, Round: 1,
			Outcome: work.Outcome{N: 10, PerSecond: rate, Costs: meter.Costs{CPU: new(0.004)}}})
	}
	var b strings.Builder
	if err := Table(&b, []plan.Work{wk}, lines); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"pawl-store is better by, records/s: 0.5× (0.5–0.5) raw, 5.00× (5.00–5.00) parallel-consumer\n",
		"pawl-dispatch is better by, records/s: 0.6× (0.6–0.6) raw, 6.00× (6.00–6.00) parallel-consumer\n",
		"at most 12.8k/s, of which raw 156 % (156–156); pawl-store 78.1 % (78.1–78.1)", "CPU s/1M", "4.00",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

func TestTableNamesBothArmsAndTheirSettings(t *testing.T) {
	wk := plan.Work{Suite: "postgres", Name: "burn", Kind: plan.Burn, Doc: "burns", Arms: []string{"pawl", "river"}}
	lines := []*Line{
		{Suite: "postgres", Work: "burn", Arm: "river", Round: 1, Settings: "1000 workers",
			Outcome: work.Outcome{N: 100, PerSecond: 30_000}},
		{Suite: "postgres", Work: "burn", Arm: "pawl", Round: 1, Settings: "runs of 64",
			Outcome: work.Outcome{N: 100, PerSecond: 90_000, Slices: []float64{1, 2}}},
	}
	var b strings.Builder
	if err := Table(&b, []plan.Work{wk}, lines); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"pawl: runs of 64", "river: 1000 workers", "90.0k", "30.0k", "3.00× (3.00–3.00) river",
		"pawl, jobs/s per 5s: 1.00 2.00",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
}

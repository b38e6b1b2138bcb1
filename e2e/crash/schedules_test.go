//go:build linux

package crash

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSchedulesOverKills: five processes, of which one is killed every 5 s, the one that fires among them. No tick of
// 51 schedules is missed or doubled, and outside of a take-over each fires within a second. Two kills by default; with
// PAWL_BARS=1 it takes five minutes.
func TestSchedulesOverKills(t *testing.T) {
	besideUnless(t, strict(), 16)
	onEachStore(t, schedulesOverKills)
}

func schedulesOverKills(t *testing.T, s *site) {
	t.Parallel()
	const processes, takeOver = 5, 12 * time.Second // a lease and 5 s
	lasts, every := time.Second, time.Second
	if strict() {
		lasts, every = 5*time.Minute, 5*time.Second
	}
	var file strings.Builder
	file.WriteString("listen: off\nschedules:\n  each: {every: 1s, topic: ticks, missed: all}\n")
	for n := range 50 { // a second apart
		fmt.Fprintf(&file, "  s%02d: {cron: \"%d * * * * *\", topic: ticks, missed: all}\n", n, n)
	}
	config := filepath.Join(s.dir, "pawl.yaml")
	if err := os.WriteFile(config, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	var running []*family
	start := func() { running = append(running, launch(t, s.env(), nil, nil, "up", "--config", config)) }
	kill := func() {
		running[0].killAll() // one after the other: the one that fires is among them
		<-running[0].exited
		running = running[1:]
		start()
	}
	start()
	time.Sleep(time.Second) // so that it is the one that fires
	for range processes - 1 {
		start()
	}
	for end := time.Now().Add(lasts); ; kill() {
		time.Sleep(every)
		if !time.Now().Before(end) {
			break
		}
	}
	kill()
	time.Sleep(takeOver)

	ticks := map[string][]int64{}
	for d := json.NewDecoder(strings.NewReader(s.must(t, "messages", "ls", "--topic", "ticks", "-o", "jsonl", "--limit",
		"100000").stdout)); d.More(); {
		var m struct{ Headers map[string]string }
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, m.Headers["Pawl-Tick"])
		if err != nil {
			t.Fatal(err)
		}
		name := m.Headers["Pawl-Schedule"]
		ticks[name] = append(ticks[name], at.Unix())
	}
	if len(ticks["each"]) < 10 {
		t.Fatalf("%d ticks of the schedule of each second", len(ticks["each"]))
	}
	slices.Sort(ticks["each"])
	first, last := ticks["each"][0], ticks["each"][len(ticks["each"])-1]
	for name, all := range ticks {
		slices.Sort(all)
		step := int64(60)
		if name == "each" {
			step = 1
		}
		for i := 1; i < len(all); i++ {
			if all[i]-all[i-1] != step {
				t.Errorf("%s: a tick %d s after the one before, not %d s", name, all[i]-all[i-1], step)
			}
		}
	}
	// Where the machine is busy, the last of the file is written seconds after the first.
	for at := first + 5; at < last; at++ { // each second of a minute up to the 49th has a schedule of its own
		name := fmt.Sprintf("s%02d", at%60)
		if at%60 < 50 && !slices.Contains(ticks[name], at) {
			t.Errorf("%s: no tick at %s", name, time.Unix(at, 0).UTC())
		}
	}
	firingLag(t, s)
}

// firingLag says how late the ticks of each second were fired, and that most were not, unless another process had to
// take over.
func firingLag(t *testing.T, s *site) {
	t.Helper()
	var runs []struct {
		Tick    time.Time
		FiredAt time.Time `json:"fired_at"`
		Action  string
	}
	if err := json.Unmarshal([]byte(s.must(t, "schedules", "history", "each", "-o", "json").stdout), &runs); err != nil {
		t.Fatal(err)
	}
	var lags []time.Duration
	longest := time.Duration(0)
	for _, r := range runs {
		if r.Action != "fired" && r.Action != "made_up" {
			t.Errorf("the tick %s is %s", r.Tick, r.Action)
		}
		switch lag := r.FiredAt.Sub(r.Tick); {
		case lag < time.Second:
			lags = append(lags, lag)
		default:
			longest = max(longest, lag)
		}
	}
	slices.Sort(lags)
	if len(lags) == 0 || longest > 12*time.Second {
		t.Fatalf("%d ticks in time; the latest %v late", len(lags), longest)
	}
	t.Logf("%d ticks of each second, %d in time: p50 %v, p99 %v late; the others at most %v", len(runs), len(lags),
		lags[len(lags)/2], lags[len(lags)*99/100], longest)
}

// TestScheduleChanges: a schedule that is written fires within two seconds of that and its next tick.
func TestScheduleChanges(t *testing.T) {
	besideUnless(t, strict(), 8)
	onEachStore(t, func(t *testing.T, s *site) {
		t.Parallel()
		config := filepath.Join(s.dir, "pawl.yaml")
		const file = "listen: off\nschedules:\n  first: {every: 1s, topic: ticks}\n"
		if err := os.WriteFile(config, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		launch(t, s.env(), nil, nil, "up", "--config", config)
		eventually(t, 20*time.Second, "the first schedule fires", func() bool {
			return strings.Contains(s.run(t, nil, "schedules", "history", "first", "-o", "json").stdout, "fired")
		})
		const changes = 20
		written := make([]time.Time, changes)
		for n := range written {
			s.must(t, "schedules", "put", fmt.Sprint("s", n), "--every", "1s", "--topic", "ticks")
			written[n] = time.Now()
		}
		time.Sleep(3 * time.Second)
		var lags []time.Duration
		for n, at := range written {
			var runs []struct {
				FiredAt time.Time `json:"fired_at"`
			}
			text := s.must(t, "schedules", "history", fmt.Sprint("s", n), "-o", "json").stdout
			if err := json.Unmarshal([]byte(text), &runs); err != nil {
				t.Fatal(err)
			}
			if len(runs) == 0 {
				t.Fatalf("schedule %d has not fired after %v", n, time.Since(at))
			}
			lags = append(lags, runs[len(runs)-1].FiredAt.Sub(at))
		}
		slices.Sort(lags)
		if p95 := lags[len(lags)*95/100]; p95 > bound(2*time.Second) {
			t.Errorf("p95 %v", p95)
		}
		t.Logf("%d changes: p50 %v, p95 %v, at most %v until they fire, up to a second of it until the tick", changes,
			lags[len(lags)/2], lags[len(lags)*95/100], lags[len(lags)-1])
	})
}

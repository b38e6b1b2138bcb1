//go:build linux

package crash

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/e2e/worker/journal"
)

// TestIdle measures what a worker costs that has nothing to do, after it had.
func TestIdle(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *site) {
		const topic = "idle"
		folder := t.TempDir()
		f := launch(t, s.env(), nil, nil, "work", topic, "--pipe", pipeCommand(folder), "--concurrency", "4")
		var lines strings.Builder
		for n := range 2_000 {
			fmt.Fprintf(&lines, `{"key":"k%d","body":"%s"}`+"\n", n%100, strings.Repeat("x", 200))
		}
		s.mustWith(t, strings.NewReader(lines.String()), "send", topic, "--jsonl")
		eventually(t, 30*time.Second, "all is carried out", func() bool { return s.topic(t, topic).open() == 0 })
		settleDown := 3 * time.Second // its own chores after the work
		time.Sleep(settleDown)
		lasts := 20 * time.Second
		if !strict() {
			lasts = 5 * time.Second
		}
		before, began := cpuTime(t, f.cmd.Process.Pid), journal.Now()
		time.Sleep(lasts) // what is measured
		used, took := cpuTime(t, f.cmd.Process.Pid)-before, journal.Now()-began
		percent := 100 * used.Seconds() / took.Seconds()
		rss := memoryOf(t, f.cmd.Process.Pid)
		t.Logf("an idle worker: %.2f %% CPU over %v, %.1f MB resident", percent, took.Round(time.Second),
			float64(rss)/1e6)
		if percent > bound(1.0) {
			t.Errorf("%.2f %% CPU; the bar is 1", percent)
		}
		most := int64(60e6)
		if !strict() {
			most *= 2 // CI has huge pages for all memory, of which parts are not used
		}
		if rss >= most {
			t.Errorf("%.1f MB resident; the bar is 60", float64(rss)/1e6)
		}
		if !f.alive() {
			t.Errorf("the worker ended: %v", f.cmd.ProcessState)
		}
	})
}

// cpuTime is what a process used so far, in user and system mode.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	const tick = 10 * time.Millisecond // USER_HZ is 100 on every Linux that Go runs on
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	// The name, in parentheses, may hold anything; utime and stime are the 14th and
	// 15th field of all.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	sum := 0
	for _, f := range fields[11:13] {
		n, err := strconv.Atoi(string(f))
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return time.Duration(sum) * tick
}

// memoryOf is how many bytes of a process are in memory.
func memoryOf(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("no VmRSS")
	return 0
}

// Package report writes what was measured: a JSON line per arm and round, and
// a table for people.
package report

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/work"
)

// Line is one arm's round of one work. The names are a contract with whoever
// reads the files.
type Line struct {
	Suite            string            `json:"suite"`
	Work             string            `json:"work"`
	Arm              string            `json:"arm"`
	Round            int               `json:"round"`
	N                int               `json:"n"`
	PerSecond        float64           `json:"per_second"`
	P50              *float64          `json:"p50_ms,omitempty"`
	P99              *float64          `json:"p99_ms,omitempty"`
	WALBytesPerJob   *float64          `json:"wal_bytes_per_job,omitempty"`
	DeadTuplesPerJob *float64          `json:"dead_tuples_per_job,omitempty"`
	CommitsPerJob    *float64          `json:"commits_per_job,omitempty"`
	CPUSecondsPer1k  *float64          `json:"cpu_seconds_per_1k,omitempty"`
	RSSBytes         int64             `json:"rss_bytes,omitempty"`
	Slices           []float64         `json:"slices_per_second,omitempty"`
	Backlog          []int             `json:"backlog_by_slice,omitempty"`
	Repeated         int               `json:"repeated,omitempty"`
	Settings         string            `json:"settings"`
	Scale            string            `json:"scale"`
	At               time.Time         `json:"at"`
	Versions         map[string]string `json:"versions"`
}

// Fill takes over what a run measured.
func (l *Line) Fill(o *work.Outcome) {
	l.N, l.PerSecond, l.Slices, l.Repeated, l.RSSBytes = o.N, o.PerSecond, o.Slices, o.Repeated, o.RSS
	l.Backlog = o.Backlog
	if o.Timed {
		l.P50, l.P99 = new(millis(o.P50)), new(millis(o.P99))
	}
	l.CPUSecondsPer1k = perJob(int64(o.Costs.CPU), o.N, 1e-6) // ns a job = 1e-9 s × 1,000 for 1,000 jobs
	l.WALBytesPerJob = perJob(o.Costs.WAL, o.N, 1)
	l.DeadTuplesPerJob = perJob(o.Costs.Dead, o.N, 1)
	l.CommitsPerJob = perJob(o.Costs.Commits, o.N, 1)
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// perJob is nil for what was not measured (negative).
func perJob(total int64, n int, unit float64) *float64 {
	if total < 0 || n == 0 {
		return nil
	}
	return new(float64(total) * unit / float64(n))
}

// Append adds a line to the suite's file in dir.
func Append(dir string, l *Line) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the folder of results: %w", err)
	}
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encode a result: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, l.Suite+".jsonl"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the file of results: %w", err)
	}
	if _, err := f.Write(append(b, '\n')); err != nil {
		_ = f.Close() // the write's error says more
		return fmt.Errorf("write a result: %w", err)
	}
	return f.Close()
}

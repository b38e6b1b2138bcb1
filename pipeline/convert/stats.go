package convert

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
)

// stats count what a run does.
type stats struct {
	files, completed, unchanged, permanent, skipped, unreadable, errors atomic.Int64
	requests, rateLimited, serverErrors                                 atomic.Int64
	input, output, cost                                                 atomic.Int64 // tokens, tokens, nano-dollars
	began                                                               time.Time
}

// Summary is what a run has done.
type Summary struct {
	Files              int64   `json:"files"`
	Completed          int64   `json:"completed"`
	Unchanged          int64   `json:"unchanged"`
	Failed             int64   `json:"failed"`
	PermanentFailure   int64   `json:"permanent_failure"`
	Skipped            int64   `json:"skipped"`
	Unreadable         int64   `json:"unreadable"` // folders, and files that were not looked at
	DocumentsPerMinute float64 `json:"documents_per_minute"`
	Requests           int64   `json:"requests"`
	RateLimited        int64   `json:"rate_limited"`
	ServerErrors       int64   `json:"server_errors"`
	InputTokens        int64   `json:"input_tokens"`
	OutputTokens       int64   `json:"output_tokens"`
	CostUSD            float64 `json:"cost_usd"`
	ElapsedSeconds     float64 `json:"elapsed_seconds"`
}

func (r *run) summary() Summary {
	s := &r.stats
	elapsed := time.Since(s.began).Seconds()
	return Summary{
		Files: s.files.Load(), Completed: s.completed.Load(), Unchanged: s.unchanged.Load(),
		PermanentFailure: s.permanent.Load(),
		Skipped:          s.skipped.Load(), Unreadable: s.unreadable.Load(),
		DocumentsPerMinute: float64(s.completed.Load()) / max(elapsed, 0.001) * 60,
		Requests:           s.requests.Load(), RateLimited: s.rateLimited.Load(), ServerErrors: s.serverErrors.Load(),
		InputTokens: s.input.Load(), OutputTokens: s.output.Load(), CostUSD: float64(s.cost.Load()) / 1e9,
		ElapsedSeconds: elapsed, Failed: r.hand.count(func(f *held) bool { return f.Failures > f.Forgiven }),
	}
}

func (s *Summary) print(w io.Writer) error {
	unreadable := ""
	if s.Unreadable > 0 {
		unreadable = fmt.Sprintf(", %d unreadable", s.Unreadable)
	}
	_, err := fmt.Fprintf(w,
		"%s: %d converted, %d unchanged, %d failed for good, %d failed so far, %d skipped%s, in %.1f s\n",
		pipeline.Some(s.Files, "file", "files"), s.Completed, s.Unchanged, s.PermanentFailure, s.Failed, s.Skipped,
		unreadable, s.ElapsedSeconds)
	if err == nil && s.Requests > 0 {
		_, err = fmt.Fprintf(w, "%d requests (%d rate limited, %d server errors), %d + %d tokens, $%.4f\n",
			s.Requests, s.RateLimited, s.ServerErrors, s.InputTokens, s.OutputTokens, s.CostUSD)
	}
	return err
}

// inUse returns how many requests or conversions run.
func (r *run) inUse() int64 { return r.hand.count(func(f *held) bool { return f.inWork }) }

// window returns how many requests or conversions may run now.
func (r *run) window() int {
	if r.limit == nil {
		return r.most
	}
	return max(int(r.limit.Snapshot().Window), 1) // what it has learned
}

// boardLines are what a terminal shows.
func (r *run) boardLines() []string {
	s := r.summary()
	lines := []string{
		fmt.Sprintf("documents    %d of %s   %.0f/min   ETA %s", s.Completed+s.Unchanged+s.PermanentFailure, r.total(),
			s.DocumentsPerMinute, r.eta(&s)),
		fmt.Sprintf("concurrency  %d/%d (limit/in use)   failed %d (%d for good)", r.window(), r.inUse(),
			r.stats.errors.Load(),
			s.PermanentFailure),
	}
	if r.model != nil {
		share := func(n int64) float64 { return 100 * float64(n) / float64(max(s.Requests, 1)) }
		lines = append(lines, fmt.Sprintf("requests     %d   429 %d (%.1f %%)   5xx %d (%.1f %%)   cost $%.4f",
			s.Requests, s.RateLimited, share(s.RateLimited), s.ServerErrors, share(s.ServerErrors),
			float64(r.model.spent.Load())/1e9))
	}
	return lines
}

// boardLine is the same in a line, where there is no terminal.
func (r *run) boardLine() string { return strings.Join(r.boardLines(), " | ") }

func (r *run) total() string {
	n := r.stats.files.Load()
	if !r.surveyed.Load() {
		return fmt.Sprintf("%d or more", n)
	}
	return fmt.Sprint(n)
}

// eta is only known when the files are counted, and some are done.
func (r *run) eta(s *Summary) string {
	if !r.surveyed.Load() || s.Completed < 30 {
		return "–"
	}
	left := s.Files - s.Completed - s.Unchanged - s.PermanentFailure
	return (time.Duration(float64(left)/s.DocumentsPerMinute*60) * time.Second).String()
}

package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
)

// fileState is a file in state.json.
type fileState struct {
	Status       string `json:"status"`
	FailureCount int    `json:"failure_count"`
	Output       string `json:"output,omitempty"`
	SHA256       string `json:"sha256,omitempty"`
	LastError    string `json:"last_error,omitempty"`
}

// failure is a file in failed_report.json.
type failure struct {
	File         string    `json:"file"`
	Status       string    `json:"status"`
	FailureCount int       `json:"failure_count"`
	Kind         pawl.Kind `json:"kind"`
	Error        string    `json:"error"`
	LastFailedAt time.Time `json:"last_failed_at"`
}

const (
	soon    = time.Second      // how old state.json is at most
	later   = 10 * time.Second // the same, for many files
	isMany  = 10_000
	atOnce  = 250 * time.Millisecond
	stateIs = 1 // version of the file
)

// exportLoop writes state.json again when something has changed.
func (r *run) exportLoop(stop <-chan struct{}) {
	tick := time.NewTicker(atOnce)
	defer tick.Stop()
	last := time.Time{}
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			every := soon - atOnce
			if r.stats.files.Load() > isMany {
				every = later - soon
			}
			if now.Sub(last) < every {
				continue
			}
			if r.changed.Swap(false) || r.inUse() > 0 || last.IsZero() {
				if err := r.export(context.Background()); err != nil {
					r.log.Warn("state.json was not written", "error", err)
				}
			}
			last = now
			r.note(running)
		}
	}
}

// export writes state.json and failed_report.json from the records. Both are replaced as wholes, and neither is
// ever held in memory.
func (r *run) export(ctx context.Context) error {
	return pipeline.WriteFile(filepath.Join(r.out, "state.json"), 0o644, func(state io.Writer) error {
		return pipeline.WriteFile(filepath.Join(r.out, "failed_report.json"), 0o644, func(report io.Writer) error {
			return r.report(ctx, state, report)
		})
	})
}

// report ignores errors of its writers: they show when the files are flushed.
func (r *run) report(ctx context.Context, state, report io.Writer) error {
	now := time.Now().UTC()
	fmt.Fprintf(state, `{"version":%d,"run":%s,"updated_at":%s,"files":{`, stateIs, text(r.id), stamp(now))
	fmt.Fprintf(report, `{"generated_at":%s,"failed":[`, stamp(now))
	totals := map[string]int{}
	n, failures := 0, 0
	for m, err := range r.marks.ListMarks(ctx, r.scope, "") {
		if err != nil {
			return err
		}
		var rec record
		if err := json.Unmarshal(m.Value, &rec); err != nil {
			return err
		}
		if s := r.hand.status(rec.Path); s != "" && rec.Status != completed && rec.Status != permanent {
			rec.Status = s
		} else if s != "" && s != failed {
			rec.Status = s // it is being converted again
		}
		totals[rec.Status]++
		line, err := json.Marshal(fileState{rec.Status, rec.Failures, rec.Output, rec.SHA256, rec.Error})
		if err != nil {
			return err
		}
		fmt.Fprintf(state, "%s\n%s:%s", comma(n), text(rec.Path), line)
		n++
		if rec.Error == "" || rec.Status == completed {
			continue
		}
		line, err = json.Marshal(failure{strings.ToValidUTF8(rec.Path, "\uFFFD"), rec.Status, rec.Failures, rec.Kind,
			rec.Error, rec.FailedAt})
		if err != nil {
			return err
		}
		fmt.Fprintf(report, "%s\n%s", comma(failures), line)
		failures++
	}
	totals["files"] = n
	counts, err := json.Marshal(totals)
	if err != nil {
		return err
	}
	fmt.Fprintf(state, "\n},\"totals\":%s}\n", counts)
	fmt.Fprint(report, "\n]}\n")
	return nil
}

func comma(n int) string {
	if n == 0 {
		return ""
	}
	return ","
}

func text(s string) string {
	b, _ := json.Marshal(strings.ToValidUTF8(s, "\uFFFD")) // text has a form in JSON
	return string(b)
}

func stamp(t time.Time) string { return text(t.Format(time.RFC3339Nano)) }

package convert

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
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

// exportLoop writes state.json anew when something has changed.
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
				last = now
			}
		}
	}
}

// export writes state.json and failed_report.json from the records. Both are replaced as wholes, and neither is
// ever held in memory.
func (r *run) export(ctx context.Context) error {
	state, err := create(filepath.Join(r.out, "state.json"))
	if err != nil {
		return err
	}
	defer state.abandon()
	report, err := create(filepath.Join(r.out, "failed_report.json"))
	if err != nil {
		return err
	}
	defer report.abandon()
	now := time.Now().UTC()
	state.print(`{"version":%d,"run":%s,"updated_at":%s,"files":{`, stateIs, text(r.id), stamp(now))
	report.print(`{"generated_at":%s,"failed":[`, stamp(now))
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
			rec.Status = s // it is done anew
		}
		totals[rec.Status]++
		line, err := json.Marshal(fileState{rec.Status, rec.Failures, rec.Output, rec.SHA256, rec.Error})
		if err != nil {
			return err
		}
		state.print("%s\n%s:%s", comma(n), text(rec.Path), line)
		n++
		if rec.Error == "" || rec.Status == completed {
			continue
		}
		line, err = json.Marshal(failure{strings.ToValidUTF8(rec.Path, "\uFFFD"), rec.Status, rec.Failures, rec.Kind,
			rec.Error, rec.FailedAt})
		if err != nil {
			return err
		}
		report.print("%s\n%s", comma(failures), line)
		failures++
	}
	totals["files"] = n
	counts, err := json.Marshal(totals)
	if err != nil {
		return err
	}
	state.print("\n},\"totals\":%s}\n", counts)
	report.print("\n]}\n")
	if err := report.commit(); err != nil {
		return err
	}
	return state.commit()
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

// replacement is a file that takes the place of another when it is whole.
type replacement struct {
	file *os.File
	w    *bufio.Writer
	name string
}

func create(name string) (*replacement, error) {
	f, err := os.Create(name + ".pawl-tmp")
	if err != nil {
		return nil, err
	}
	return &replacement{f, bufio.NewWriterSize(f, 64<<10), name}, nil
}

func (r *replacement) print(format string, args ...any) {
	_, _ = fmt.Fprintf(r.w, format, args...) // an error stays in the writer, and commit reports it
}

func (r *replacement) commit() error {
	if err := r.w.Flush(); err != nil {
		return err
	}
	if err := r.file.Close(); err != nil {
		return err
	}
	return os.Rename(r.file.Name(), r.name)
}

func (r *replacement) abandon() {
	if r.file.Close() == nil { // it was not committed
		_ = os.Remove(r.file.Name())
	}
}

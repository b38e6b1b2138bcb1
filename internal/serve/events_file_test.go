package serve

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/observe"
)

// auditing is a daemon that only tells of events, into a file.
func auditing(t *testing.T, path string) *Daemon {
	t.Helper()
	m, err := observe.New(observe.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{DaemonConfig: DaemonConfig{Config: &config.Config{EventsFile: path},
		Logger: slog.New(slog.DiscardHandler)}, metrics: m}
	if err := d.openEvents(); err != nil {
		t.Fatal(err)
	}
	return d
}

// lines are those of a file; the ones that hold an event are counted.
func auditLines(t *testing.T, path string) (all []string, events int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		if e := (observe.Envelope{}); json.Unmarshal([]byte(line), &e) == nil && e.Type == "SystemHealth" {
			events++
		}
		all = append(all, line)
	}
	return all, events
}

// A line that a killed process did not finish costs that line, and not the next one.
func TestTornAuditIsContinued(t *testing.T) {
	const whole = `{"type":"SystemHealth"}`
	for _, c := range []struct {
		before        string
		lines, events int
	}{{"", 1, 1}, {whole + "\n", 2, 2}, {whole + "\n" + whole[:9], 3, 2}, {"\n", 2, 1}} {
		path := filepath.Join(t.TempDir(), "events.jsonl")
		if err := os.WriteFile(path, []byte(c.before), 0o600); err != nil {
			t.Fatal(err)
		}
		d := auditing(t, path)
		d.endEvents(nil)
		if all, events := auditLines(t, path); len(all) != c.lines || events != c.events {
			t.Errorf("after %q: %d events in %q", c.before, events, all)
		}
	}
}

// A hangup opens the file anew, so that it can be moved away; one that cannot be opened
// changes nothing.
func TestHangupOpensTheAuditAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "events.jsonl")
		d := auditing(t, path)
		hangup := make(chan struct{})
		d.Hangup, d.Read = hangup, func() (config.Source, error) {
			return config.Source{}, errors.New("not about this")
		}
		ctx, stop := context.WithCancel(t.Context())
		go d.watchConfig(ctx)
		tell := func() { _ = d.events.SystemStarted("test", nil); time.Sleep(10 * time.Millisecond) }
		again := func() { hangup <- struct{}{}; time.Sleep(10 * time.Millisecond) }
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		tell()
		must(os.Rename(path, path+".1"))
		tell()
		must(os.Mkdir(path, 0o700)) // cannot be opened
		again()
		tell()
		must(os.Remove(path))
		again()
		tell()
		stop()
		d.endEvents(nil)
		for name, want := range map[string]int{path + ".1": 3, path: 2} {
			if all, events := auditLines(t, name); events != want || len(all) != want {
				t.Errorf("%s has %d events, want %d: %q", name, events, want, all)
			}
		}
	})
}

package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
)

const strictFile = plainFile + "policy: {overrides: [{match: {kind: Command}, alert: critical}]}\n"

// A file that is emptied, or cut off before its topics, is a fault like any other.
func TestAReloadWithoutTopicsIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "blanks": "\n\n", "a comment": "# topics\n", "cut off": "log: {level: debug}\n", "no topics": "topics: {}\n",
	} {
		d, logs := reloading(t, strictFile)
		before := d.policy.Load()
		d.reload(config.Source{Path: "pawl.yaml", Text: []byte(text)})
		if d.policy.Load() != before || d.Level.Level() != slog.LevelInfo {
			t.Errorf("%s: a part of it is in effect", name)
		}
		if len(d.loaded.faults) != 1 || !strings.Contains(logs.String(), "topics: there are none, but 1 are carried out; write the whole file again") {
			t.Errorf("%s: faults are %v, the log is %s", name, d.loaded.faults, logs)
		}
		if strings.Contains(logs.String(), "configuration reloaded") {
			t.Errorf("%s: is taken: %s", name, logs)
		}
	}
}

// Half a file may be right by itself. While somebody writes it, size or time
// change from look to look, even if what it holds does not.
func TestTheWatchWaitsUntilNobodyWrites(t *testing.T) {
	dir := t.TempDir() // outside of the bubble: it has no clock of its own
	path := filepath.Join(dir, "pawl.yaml")
	synctest.Test(t, func(t *testing.T) {
		stamp := time.Now()
		write := func(text string) {
			stamp = stamp.Add(time.Millisecond)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, stamp, stamp); err != nil {
				t.Fatal(err)
			}
		}
		d, logs := reloading(t, strictFile)
		hangup := make(chan struct{})
		d.Hangup = hangup
		d.Read = func() (config.Source, error) { return config.Find(path) }
		write(strictFile)
		ctx, cancel := context.WithCancel(t.Context())
		go d.watchConfig(ctx)
		pass := func(d time.Duration) {
			time.Sleep(d)
			synctest.Wait()
		}
		pass(watchEvery + watchEvery/2)
		for range 5 {
			write(plainFile) // the overrides are still to come
			pass(watchEvery)
		}
		if logs.String() != "" {
			t.Errorf("it is read while it is written: %s", logs)
		}
		pass(watchEvery)
		if !strings.Contains(logs.String(), "configuration reloaded") {
			t.Errorf("nobody writes any more, but: %s", logs)
		}
		logs.Reset()
		write(strictFile)
		hangup <- struct{}{}
		synctest.Wait()
		if !strings.Contains(logs.String(), "configuration reloaded") {
			t.Errorf("a hangup does not read at once: %s", logs)
		}
		cancel()
		synctest.Wait()
	})
}

// A warning is logged, and stops nothing.
func TestAReloadLogsWarnings(t *testing.T) {
	d, logs := reloading(t, plainFile)
	d.reload(config.Source{Path: "pawl.yaml", Text: []byte(strings.ReplaceAll(strictFile, "Command", "Comand"))})
	if len(d.loaded.faults) > 0 || !strings.Contains(logs.String(), "configuration reloaded") || strings.Count(logs.String(), "level=WARN") != 1 ||
		!strings.Contains(logs.String(), "did you mean Command?") {
		t.Errorf("faults are %v, the log is %s", d.loaded.faults, logs)
	}
	logs.Reset()
	d.reload(config.Source{Path: "pawl.yaml", Text: []byte(strings.ReplaceAll(strictFile, "Command", "Comand") + "drian: 1s\n")})
	if len(d.loaded.faults) != 1 || strings.Count(logs.String(), "problem=") != 1 {
		t.Errorf("a warning counts as a fault: %v, %s", d.loaded.faults, logs)
	}
}

package serve

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

const strictFile = plainFile + "policy: {overrides: [{match: {kind: Command}, alert: critical}]}\n"

// A file that is emptied, or cut off before its topics, is a fault like any other.
func TestAReloadWithoutTopicsIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "blanks": "\n\n", "a comment": "# topics\n", "cut off": "logger: {level: debug}\n",
		"no topics": "topics: {}\n",
	} {
		d, logs := reloading(t, strictFile)
		before := d.policy.Load()
		d.reload(config.Source{Path: "pawl.yaml", Text: []byte(text)})
		if d.policy.Load() != before || d.Level.Level() != slog.LevelInfo {
			t.Errorf("%s: a part of it is in effect", name)
		}
		if len(d.loaded.faults) != 1 || !strings.Contains(logs.String(),
			"topics: there are none, but 1 are running; write the complete file again") {
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

// A file whose schedules the store could not take is tried again, until it does or the file is another one.
func TestAReloadWaitsForTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.yaml") // outside of the bubble: it has no clock of its own
	if err := os.WriteFile(path, []byte(plainFile), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		d, logs := reloading(t, plainFile)
		var there atomic.Bool
		faults := func() int {
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.loaded.faults)
		}
		d.Read = func() (config.Source, error) { return config.Find(path) }
		d.Load = func(s config.Source) (*config.Config, error) {
			if !there.Load() {
				return nil, &store.Error{Op: "schedule nightly", Code: store.ErrUnavailable}
			}
			return config.Load(s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go d.watchConfig(ctx)
		if err := os.WriteFile(path, []byte(strictFile), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := faults(); n != 1 || strings.Contains(logs.String(), "configuration reloaded") {
			t.Errorf("%d faults: %s", n, logs)
		}
		there.Store(true)
		time.Sleep(reloadAgain + 2*watchEvery)
		synctest.Wait()
		if n := faults(); n != 0 || strings.Count(logs.String(), "configuration reloaded") != 1 {
			t.Errorf("when the store is back: %d faults: %s", n, logs)
		}
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
		if n := strings.Count(logs.String(), "configuration reloaded"); n != 1 {
			t.Errorf("it is reloaded %d times", n)
		}
	})
}

// A warning is logged, and stops nothing.
func TestAReloadLogsWarnings(t *testing.T) {
	d, logs := reloading(t, plainFile)
	d.reload(config.Source{Path: "pawl.yaml", Text: []byte(strings.ReplaceAll(strictFile, "Command", "Comand"))})
	if len(d.loaded.faults) > 0 || !strings.Contains(logs.String(), "configuration reloaded") ||
		strings.Count(logs.String(), "level=WARN") != 1 ||
		!strings.Contains(logs.String(), "did you mean Command?") {
		t.Errorf("faults are %v, the log is %s", d.loaded.faults, logs)
	}
	logs.Reset()
	d.reload(config.Source{Path: "pawl.yaml", Text: []byte(strings.ReplaceAll(strictFile, "Command",
		"Comand") + "drian: 1s\n")})
	if len(d.loaded.faults) != 1 || strings.Count(logs.String(), "problem=") != 1 {
		t.Errorf("a warning counts as a fault: %v, %s", d.loaded.faults, logs)
	}
}

// limitsAt is what the limits of a daemon are at, by name, its topics' own included.
func limitsAt(d *Daemon) map[string]string {
	all := map[string]string{}
	for name, l := range d.limits {
		s := l.Snapshot()
		all[name] = fmt.Sprintf("%v/s %d", s.Rate, s.Concurrency)
	}
	for _, c := range d.served {
		delete(all, ownLimit+c.topic.Name)
		all[c.topic.Name] = fmt.Sprintf("%v/s", c.limit.Snapshot().Rate)
	}
	return all
}

// What comes in the place of a rate may wait for a restart. Without the rate until
// then, nothing would protect the downstream.
func TestAReloadKeepsWhatARestartReplaces(t *testing.T) {
	const topic = "topics: {t: {handler: exec, command: cat"
	for name, c := range map[string]struct {
		files   []string // the one that it starts with first
		want    map[string]string
		restart string
	}{
		"a rate of the topic becomes a named one": {
			[]string{topic + ", limit: 2/s}}\n", topic + ", limits: [smtp]}}\nlimits: {smtp: {rate: 2/s}}\n"},
			map[string]string{"t": "2/s"}, "limits.smtp.by, limits.smtp.shared, topics.t.limits[0], topics.t.limit",
		},
		"a rate of the topic is to be learned": {
			[]string{topic + ", limit: 2/s}}\n", topic + ", adaptive: true}}\n"},
			map[string]string{"t": "2/s"}, "topics.t.adaptive, topics.t.limit",
		},
		"the rate is as it was": {
			[]string{topic + ", limit: 2/s}}\n", topic + ", limit: 2/s, adaptive: true}}\n"},
			map[string]string{"t": "2/s"}, "topics.t.adaptive",
		},
		"what a reload has set is kept, and counts": {
			[]string{topic + ", limit: 2/s}}\n", topic + ", limit: 4/s}}\n",
				topic + ", limit: 2/s, adaptive: true}}\n"},
			map[string]string{"t": "4/s"}, "topics.t.adaptive, topics.t.limit",
		},
		"back to what runs": {
			[]string{topic + ", limit: 2/s}}\n", topic + ", adaptive: true}}\n", topic + ", limit: 3/s}}\n"},
			map[string]string{"t": "3/s"}, "",
		},
		"a named rate is to be learned": {
			[]string{topic + ", limits: [bb]}}\nlimits: {bb: {rate: 2/s, burst: 2}}\n",
				topic + ", limits: [bb]}}\nlimits: {bb: {adaptive: 5}}\n"},
			map[string]string{"t": "0/s", "bb": "2/s 0"}, "limits.bb.adaptive, limits.bb.rate, limits.bb.burst",
		},
		"a named rate goes by key": {
			[]string{topic + ", limits: [bb]}}\nlimits: {bb: {rate: 2/s, concurrency: 7}}\n",
				topic + ", limits: [bb]}}\nlimits: {bb: {by: key, rate: 9/s, concurrency: 8}}\n"},
			map[string]string{"t": "0/s", "bb": "2/s 7"}, "limits.bb.by, limits.bb.rate, limits.bb.concurrency",
		},
		"a burst that a reload has set is known": {
			[]string{
				topic + "}}\nlimits: {bb: {rate: 2/s, burst: 2}}\n",
				topic + "}}\nlimits: {bb: {rate: 2/s, burst: 3}}\n",
				topic + "}}\nlimits: {bb: {rate: 2/s, burst: 2, by: key}}\n",
			},
			map[string]string{"t": "0/s", "bb": "2/s 0"}, "limits.bb.by, limits.bb.burst",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, logs := reloading(t, c.files[0])
			for _, text := range c.files[1:] {
				logs.Reset()
				d.reload(config.Source{Path: "pawl.yaml", Text: []byte(text)})
			}
			if len(d.loaded.faults) > 0 {
				t.Fatalf("faults are %v", d.loaded.faults)
			}
			if got := limitsAt(d); !maps.Equal(got, c.want) {
				t.Errorf("limits are %v, want %v", got, c.want)
			}
			_, restart, _ := strings.Cut(logs.String(), "needs a restart: ")
			if restart, _, _ = strings.Cut(restart, `"`); restart != c.restart {
				t.Errorf("to restart for: %s, want %s", restart, c.restart)
			}
		})
	}
}

// A limit that waits for a restart is no fault, and stops nothing else.
func TestALimitThatWaitsForARestartIsNoFault(t *testing.T) {
	d, logs := reloading(t, plainFile+"limits: {aa: {rate: 1/s}, cc: {rate: 5/s, shared: true}}\n")
	d.reload(config.Source{Path: "pawl.yaml",
		Text: []byte(plainFile + "limits: {aa: {rate: 1/h}, cc: {concurrency: 3}}\nlogger: {level: debug}\n")})
	if len(d.loaded.faults) > 0 || !strings.Contains(logs.String(),
		"needs a restart: limits.cc.shared, limits.cc.rate, limits.cc.concurrency") {
		t.Errorf("faults are %v, the log is %s", d.loaded.faults, logs)
	}
	if at := limitsAt(d); d.limits["aa"].Snapshot().Rate != 1.0/3600 || at["cc"] != "5/s 0" ||
		d.Level.Level() != slog.LevelDebug {
		t.Errorf("limits are %v, the level is %v", at, d.Level.Level())
	}
}

// What is wrong with a limit may be found by the limiter only. By then nothing of the
// file may be in effect, whichever limit it is and what comes before it.
func TestAFaultOfALimitChangesNothing(t *testing.T) {
	const before = `
limits: {aa: {rate: 1/s, concurrency: 4}, bb: {rate: 5/s}, cc: {rate: 5/s, shared: true}}
topics:
  s: {handler: exec, command: cat, limit: 10/s, concurrency: 3}
  t: {handler: exec, command: cat, limit: 10/s}
`
	for name, text := range map[string]string{
		"of a named one":  strings.Replace(before, "bb: {rate: 5/s}", "bb: {rate: 1/1d}", 1),
		"of a shared one": strings.Replace(before, "cc: {rate: 5/s", "cc: {rate: 1/1d", 1),
		"of a topic's":    strings.Replace(before, "cat, limit: 10/s}", "cat, limit: 1/1d}", 1),
	} {
		t.Run(name, func(t *testing.T) {
			d, logs := reloading(t, before)
			want, matrix := limitsAt(d), d.policy.Load()
			text = strings.Replace(text, "aa: {rate: 1/s, concurrency: 4}", "aa: {rate: 1/h, concurrency: 5}", 1)
			text = strings.Replace(text, "limit: 10/s, concurrency: 3", "limit: 11/s, concurrency: 9", 1)
			d.reload(config.Source{Path: "pawl.yaml", Text: []byte(text + "logger: {level: debug}\n")})
			if got := limitsAt(d); !maps.Equal(got, want) {
				t.Errorf("limits are %v, want %v", got, want)
			}
			if n := d.dispatcher.Snapshot().Topics[0].Concurrency; n != 3 {
				t.Errorf("the concurrency is %d", n)
			}
			if d.policy.Load() != matrix || d.Level.Level() != slog.LevelInfo {
				t.Error("the policy or the level is another one")
			}
			if len(d.loaded.faults) != 1 || strings.Count(logs.String(), "problem=") != 1 ||
				strings.Contains(logs.String(), "configuration reloaded") {
				t.Errorf("faults are %v, the log is %s", d.loaded.faults, logs)
			}
		})
	}
}

// What is wrong with the tokens of the API is found before a schedule of the file is written or removed.
func TestAFaultOfATokenChangesNoSchedule(t *testing.T) {
	d, logs := reloading(t, plainFile)
	d.store = memory.New(memory.Config{})
	if err := d.openSchedules(); err != nil {
		t.Fatal(err)
	}
	var err error
	if d.door, err = OpenDoor(d.store, DoorConfig{API: config.API{Listen: "127.0.0.1:0"}, Logger: d.Logger}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.door.Close)
	reload := func(text string) {
		d.reload(config.Source{Path: "pawl.yaml", Text: []byte(plainFile + text)})
	}
	reload("schedules: {a: {every: 1m, topic: t}}\n")
	reload("api: {tokens: [{name: ops, token_file: " + filepath.Join(t.TempDir(), "no") + ", role: admin}]}\n")
	all, err := d.scheduler.List(t.Context())
	if err != nil || len(all) != 1 || len(d.loaded.faults) != 1 {
		t.Errorf("%d schedules (%v), faults %v: %s", len(all), err, d.loaded.faults, logs)
	}
}

// A reload writes the schedules of the file, and removes those that left it, on record.
func TestAReloadDeclaresSchedules(t *testing.T) {
	d, logs := reloading(t, plainFile)
	d.store = memory.New(memory.Config{})
	if err := d.openSchedules(); err != nil {
		t.Fatal(err)
	}
	put := func(text, want string) {
		t.Helper()
		d.reload(config.Source{Path: "pawl.yaml", Text: []byte(plainFile + text)})
		all, err := d.scheduler.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, s := range all {
			got.WriteString(s.Name + " " + s.Cron + s.Every.String() + " " + s.Origin + ";")
		}
		if got.String() != want {
			t.Errorf("got %s, want %s: %s", got.String(), want, logs)
		}
	}
	put("schedules: {a: {every: 1m, topic: t}, b: {every: 1m, topic: t}}\n", "a 1m0s file;b 1m0s file;")
	put("schedules: {a: {every: 2m, topic: t}}\n", "a 2m0s file;")
	put("schedules: {a: {every: 1ms, topic: t}}\n", "a 2m0s file;")
	put("", "")
	entries, err := operate.ListAudit(t.Context(), d.store, operate.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	var audit []string
	for _, e := range entries {
		audit = append(audit, e.Action+" "+e.Target)
	}
	want := "schedules put a, schedules put b, schedules put a, schedules rm b, schedules rm a"
	if got := strings.Join(audit, ", "); got != want {
		t.Errorf("the audit has %s, want %s", got, want)
	}
}

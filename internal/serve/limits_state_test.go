package serve

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/statesync"
	"github.com/pawl-dev/pawl/store/memory"
)

// Numbers of a limit that an operator sets count in a running process, before and after a reload, until they are
// removed.
func TestLimitsInTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		defer func() { _ = s.Close() }()
		file := config.Limit{Name: "api", PerSecond: 10, Burst: 2, Shared: true}
		all, err := newLimits([]config.Limit{file}, s)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := statesync.New[limitSet](s, limitsTopic, statesync.Config{})
		if err != nil {
			t.Fatal(err)
		}
		texts, err := statesync.New[json.RawMessage](s, limitsTopic, statesync.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go all.watch(ctx, kept, slog.New(slog.DiscardHandler))
		rate := func(want float64, when string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			if got := all["api"].Snapshot().Rate; got != want {
				t.Errorf("%s: %v a second, want %v", when, got, want)
			}
		}
		put := func(v string) {
			t.Helper()
			if _, err := texts.Put(ctx, "api", json.RawMessage(v), statesync.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		put(`{"rate":3}`)
		rate(3, "set")
		file.PerSecond = 20
		if _, err := all.set([]config.Limit{file}); err != nil {
			t.Fatal(err)
		}
		rate(3, "reloaded")
		put(`{"rate":-1}`)
		rate(3, "set to what is none")
		if kept.Figures().Poisoned == 0 {
			t.Error("what is no limit is not counted")
		}
		put(`{"rate":0}`)
		rate(3, "set to what a shared limit does not take")
		ignores(t, kept.Figures(), 1, 1, "refused")
		if _, err := kept.Delete(ctx, "api", statesync.AnyVersion); err != nil {
			t.Fatal(err)
		}
		rate(20, "removed")
		ignores(t, kept.Figures(), 1, 0, "removed")
	})
}

// The limit of a topic of its own can be set while the process runs, too, also where the file states none.
func TestTheLimitOfATopicInTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _ := reloading(t, "topics: {a: {handler: exec, command: cat, limit: 10/s}, b: {handler: exec, command: cat}}\n")
		kept, err := statesync.New[limitSet](memory.New(memory.Config{}), limitsTopic, statesync.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		go d.limits.watch(ctx, kept, slog.New(slog.DiscardHandler))
		rates := func(a, b float64, when string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			for i, want := range []float64{a, b} {
				if got := d.served[i].limits[0].Snapshot().Rate; got != want {
					t.Errorf("%s: topic %d has %v a second, want %v", when, i, got, want)
				}
			}
		}
		for _, key := range []string{"topics/a", "topics/b"} {
			if _, err := kept.Put(ctx, key, limitSet{Rate: new(3.0)}, 0); err != nil {
				t.Fatal(err)
			}
		}
		rates(3, 3, "set")
		next := configured(t, "topics: {a: {handler: exec, command: cat, limit: 20/s}, b: {handler: exec, command: cat}}\n")
		for c, topic := range d.running(next) {
			if kept := d.adjust(c, topic); len(kept) > 0 {
				t.Errorf("a reload keeps %v", kept)
			}
		}
		rates(3, 3, "reloaded")
		for _, key := range []string{"topics/a", "topics/b"} {
			if _, err := kept.Delete(ctx, key, statesync.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		rates(20, 0, "removed")
	})
}

// Values that no daemon would take are refused where they are written.
func TestCheckState(t *testing.T) {
	for text, want := range map[string]string{
		`limits {"rate":5}`: "", `limits {"rate":0}`: "", `limits {"concurrency":3,"burst":1}`: "",
		`limits {"rate":-1}`: "rate -1", `limits {"rat":5}`: `unknown field "rat"`, `limits {}`: "sets none",
		`limits {"burst":-1}`: "burst", `limits 5`: "cannot unmarshal", `limits null`: "sets none",
		`policy {"match":{"kind":"Panic"},"alert":"critical"}`: "", `policy {"match":{"kind":"Panic"}}`: "changes nothing",
		`policy null`: "no value", `retries {"attempts":-1}`: "attempts", `flags {"rat":5}`: "", `flags null`: "",
	} {
		topic, value, _ := strings.Cut(text, " ")
		err := CheckState(topic, []byte(value))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

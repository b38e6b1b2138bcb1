package serve

import (
	"context"
	"log/slog"
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
		file := config.Limit{Name: "api", PerSecond: 10, Burst: 2}
		all, err := newLimits([]config.Limit{file}, s)
		if err != nil {
			t.Fatal(err)
		}
		kept, err := statesync.New[limitSet](s, limitsTopic, statesync.Config{})
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
		put := func(v limitSet) {
			t.Helper()
			if _, err := kept.Put(ctx, "api", v, statesync.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		put(limitSet{Rate: new(3.0)})
		rate(3, "set")
		file.PerSecond = 20
		if _, err := all.set([]config.Limit{file}); err != nil {
			t.Fatal(err)
		}
		rate(3, "reloaded")
		put(limitSet{Rate: new(-1.0)})
		rate(3, "set to what is none")
		if _, err := kept.Delete(ctx, "api", statesync.AnyVersion); err != nil {
			t.Fatal(err)
		}
		rate(20, "removed")
	})
}

package dispatch

import (
	"context"
	"log/slog"
	"testing"

	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

type backCount struct {
	Observer
	n int
}

func (c *backCount) StoreWentBack() { c.n++ }

// TestStoreThatWentBackIsNoticed, once, and one that forgot a worker is none.
func TestStoreThatWentBackIsNoticed(t *testing.T) {
	primary, replica, empty := memory.New(memory.Config{}), memory.New(memory.Config{}), memory.New(memory.Config{})
	var noticed backCount
	d, err := New(primary, Config{Idle: true, Observer: Observers(&noticed), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	d.io = context.Background()
	g := &registration{of: d.watcher, entries: primary, key: roster.Prefix + "w"}
	say := func(want int, what string) {
		t.Helper()
		if err := g.say(); err != nil {
			t.Fatal(err)
		}
		if noticed.n != want {
			t.Errorf("%s: noticed %d times, want %d", what, noticed.n, want)
		}
	}
	for range 5 {
		say(0, "well")
	}
	if err := primary.DeleteState(t.Context(), g.key, store.AnyVersion); err != nil {
		t.Fatal(err)
	}
	say(0, "forgotten")
	for range 2 { // what was replicated before the failover
		if _, err := replica.PutState(t.Context(), g.key, nil, store.AnyVersion, "w"); err != nil {
			t.Fatal(err)
		}
	}
	g.entries = replica
	say(1, "an older copy")
	say(1, "the same copy")
	if g.text().StoreWentBackAt == nil {
		t.Error("the others are not told")
	}
	g.entries = empty
	say(2, "an empty copy")
}

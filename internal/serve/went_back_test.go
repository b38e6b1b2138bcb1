package serve

import (
	"log/slog"
	"testing"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestStoreThatWentBackIsNoticed, once, and one that forgot a worker is none.
func TestStoreThatWentBackIsNoticed(t *testing.T) {
	noticed := 0
	primary, replica, empty := memory.New(memory.Config{}), memory.New(memory.Config{}), memory.New(memory.Config{})
	a := &Announcement{
		owner: "w", entries: primary, logger: slog.New(slog.DiscardHandler), snapshot: func() dispatch.Snapshot {
			return dispatch.Snapshot{}
		},
		wentBack: func() { noticed++ },
	}
	say := func(want int, what string) {
		t.Helper()
		if err := a.say(); err != nil {
			t.Fatal(err)
		}
		if noticed != want {
			t.Errorf("%s: noticed %d times, want %d", what, noticed, want)
		}
	}
	for range 5 {
		say(0, "well")
	}
	if err := primary.DeleteState(t.Context(), operate.WorkerKey("w"), store.AnyVersion); err != nil {
		t.Fatal(err)
	}
	say(0, "forgotten")
	for range 2 { // what was replicated before the failover
		if _, err := replica.PutState(t.Context(), operate.WorkerKey("w"), nil, store.AnyVersion, "w"); err != nil {
			t.Fatal(err)
		}
	}
	a.entries = replica
	say(1, "an older copy")
	say(1, "the same copy")
	if a.text().StoreWentBackAt == nil {
		t.Error("the others are not told")
	}
	a.entries = empty
	say(2, "an empty copy")
}

package serve

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// Topics together do not exceed the concurrency, and what waits for a program of its own
// when a worker is told to end is not begun when the program before it ends.
func TestWorkStartsNoProgramWhileItDrains(t *testing.T) {
	t.Parallel()
	dir, s := t.TempDir(), memory.New(memory.Config{})
	var messages []pawl.Message
	for _, topic := range []string{"a", "b", "a", "b"} {
		messages = append(messages, pawl.Message{Topic: topic})
	}
	if err := store.Send(t.Context(), s, messages...); err != nil {
		t.Fatal(err)
	}
	began := func() int {
		all, err := filepath.Glob(filepath.Join(dir, "began-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	working, drain := context.WithCancel(t.Context())
	defer drain()
	done := make(chan Worked, 1)
	go func() {
		w, err := Work(working, s, WorkConfig{
			Topics: []string{"a", "b"}, Concurrency: 1, Drain: time.Minute, Lease: time.Minute,
			Exec:   "cd '" + dir + "' && : >began-$PAWL_ID && while [ ! -e go ]; do sleep 0.01; done",
			Stdout: t.Output(), Stderr: t.Output(), Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Error(err)
		}
		done <- w
	}()
	for end := time.Now().Add(30 * time.Second); began() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("after 30s nothing has begun")
		}
	}
	time.Sleep(100 * time.Millisecond) // a second program would begin meanwhile
	if n := began(); n != 1 {
		t.Errorf("%d programs run at once", n)
	}
	drain()
	time.Sleep(time.Second / 2) // the worker has heard of it, or begins the next one
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if w := <-done; w.Acked != 1 || began() != 1 {
		t.Errorf("%+v, %d programs begun", w, began())
	}
}

// A topic of kept programs starts with every concurrency that the configuration takes.
func TestKeptProgramsFitIntoADispatcher(t *testing.T) {
	for _, children := range []int{1, 195, 196, config.MaxConcurrency} {
		if n := pipeSlots(children); n < children || n > dispatch.MaxSlots {
			t.Errorf("%d programs have %d slots of at most %d", children, n, dispatch.MaxSlots)
		}
	}
}

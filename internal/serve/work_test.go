package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// What waits for a program of its own when a worker is told to end is given back,
// and not begun when the program before it ends.
func TestWorkStartsNoProgramWhileItDrains(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	programs, err := newPrograms(io.Discard, io.Discard, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(programs.close)
	w := &worker{programs: programs, config: WorkConfig{
		Topics: []string{"a", "b"}, Concurrency: 1,
		Exec: "cd '" + dir + "' && : >began-$PAWL_ID && while [ ! -e go ]; do sleep 0.01; done",
	}}
	w.gate.wake = func() {}
	working, drain := context.WithCancel(t.Context())
	defer drain()
	h := w.exec(working, true)
	run := func(id string) chan error {
		done := make(chan error, 1)
		d := &pawl.Delivery{Message: pawl.Message{ID: id, Topic: id}, Attempt: 1, Deadline: time.Minute}
		go func() { done <- h.Handle(t.Context(), d) }()
		return done
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("after 30s: %s", what)
			}
		}
	}
	there := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	inside := run("a")
	await("the first is inside", func() bool { return there("began-a") })
	waiting := run("b")
	await("the second waits", func() bool { lanes, _ := w.gate.room(); return lanes == 0 })
	drain()
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-inside; err != nil {
		t.Errorf("what was inside: %v", err)
	}
	if r, ok := errors.AsType[*pawl.ReleaseError](<-waiting); !ok || r.After != 0 || r.Reason != "draining" {
		t.Errorf("what waited: %+v", r)
	}
	if there("began-b") {
		t.Error("a program was started for what waited")
	}
}

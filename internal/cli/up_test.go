package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A daemon that waits for its store takes SIGHUP over before: it is no reason to end.
func TestHangupsAreTakenOverBeforeTheStoreIsOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.yaml")
	// Nobody listens on port 1.
	text := "store: postgres://nobody@127.0.0.1:1/none\nlisten: \"off\"\ntopics:\n  a:\n    handler: exec\n    command: \"true\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithTimeout(t.Context(), 10*time.Second)
	defer giveUp()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	taken, out := false, &bytes.Buffer{}
	code := Run(ctx, "test", []string{"up", "--config", path}, System{
		In: &bytes.Buffer{}, Out: out, Err: out, Getenv: func(string) string { return "" },
		Hangups: func() <-chan struct{} {
			taken = true
			stop()
			return nil
		},
	})
	if !taken || errors.Is(ctx.Err(), context.DeadlineExceeded) || code != 0 ||
		!strings.Contains(out.String(), "stopped before the store") {
		t.Errorf("taken over: %v; it ended with %d\n%s", taken, code, out)
	}
}

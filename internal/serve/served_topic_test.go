package serve

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// breaks is a program that answers once and then ends at every start, until it is
// mended.
const breaks = `cd "${0%/*}" || exit 2
[ ! -e broken ] || { echo no such module >&2; exit 1; }
[ -e mended ] || : >broken
read -r line
echo "$line" | sed 's/.*"id":\("[^"]*"\).*"token":\("[^"]*"\).*/{"id":\1,"token":\2,"verdict":"ack"}/'
`

func TestDaemonIsNotReadyWhileAKeptProgramDoesNotStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := filepath.Join(dir, "breaks.sh")
	if err := os.WriteFile(script, []byte(breaks), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "listen: 127.0.0.1:0\ntopics: {a: {handler: pipe, concurrency: 1, command: 'sh " + script + "'}}\n"
	s := memory.New(memory.Config{})
	d, err := NewDaemon(s, DaemonConfig{
		Config: configured(t, text), Text: []byte(text), Level: &slog.LevelVar{},
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" },
		Read: func() (config.Source, error) { return config.Source{Path: "pawl.yaml", Text: []byte(text)}, nil },
		Load: func(s config.Source) (*config.Config, error) { return config.Load(s) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	send := func() {
		t.Helper()
		if _, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "a"})); err != nil {
			t.Fatal(err)
		}
	}
	awaitReadyz(t, d, http.StatusOK, "ready")
	send()
	awaitReadyz(t, d, http.StatusServiceUnavailable, "topic a: the program ends before it reads anything",
		"no such module (exit status 1)")
	if acked := d.health().Topics[0].Acked; acked != 1 {
		t.Errorf("%d acked; it was to be one before it broke", acked)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "mended"), nil, 0o600),
		os.Remove(filepath.Join(dir, "broken"))); err != nil {
		t.Fatal(err)
	}
	send()
	awaitReadyz(t, d, http.StatusOK, "ready")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// awaitReadyz waits until /readyz answers with a status and says all that is wanted.
func awaitReadyz(t *testing.T, d *Daemon, status int, want ...string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		reply, err := http.Get("http://" + d.Address() + "/readyz")
		var text []byte
		if err == nil {
			text, err = io.ReadAll(reply.Body)
			_ = reply.Body.Close()
		}
		if err == nil && reply.StatusCode == status {
			for _, w := range want {
				if !strings.Contains(string(text), w) {
					t.Errorf("it does not say %q: %s", w, text)
				}
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it is not %d: %s, %v", status, text, err)
		}
	}
}

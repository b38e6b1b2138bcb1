package serve

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/observe"
)

// The slowest key is named once a minute, to those who look into it only.
func TestSlowestKeyIsLogged(t *testing.T) {
	for level, want := range map[slog.Level]int{slog.LevelDebug: 2, slog.LevelInfo: 0} {
		synctest.Test(t, func(t *testing.T) {
			m, err := observe.New(observe.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			m.RanKeys("mail", slices.Repeat([][]byte{[]byte("ada"), []byte("bob")}, 20),
				slices.Repeat([]time.Duration{2 * time.Second, time.Second}, 20))
			var text bytes.Buffer
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute+30*time.Second)
			defer cancel()
			tellSlowKeys(ctx, m, slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: level})))
			if n := strings.Count(text.String(), "topic=mail key=ada p99=2.0"); n != want ||
				strings.Contains(text.String(), "bob") {
				t.Errorf("at %v: %d lines in two minutes and a half, want %d:\n%s", level, n, want, text.String())
			}
		})
	}
}

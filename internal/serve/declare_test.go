package serve

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestDeclaringTellsTheAudit: a setting that a new version of a service states otherwise
// holds, and the audit says who changed it, and from what.
func TestDeclaringTellsTheAudit(t *testing.T) {
	s := memory.New(memory.Config{})
	var log strings.Builder
	topics, ok := store.As[store.Topics](newDeclaring(s, "new", slog.New(slog.NewTextHandler(&log, nil))))
	if !ok {
		t.Fatal("the store has no topics")
	}
	for _, deadline := range []time.Duration{20 * time.Second, 20 * time.Second, 40 * time.Second, 40 * time.Second} {
		now, err := topics.Declare(t.Context(), store.Declaration{Name: "mail", Deadline: deadline})
		if err != nil || now.Deadline != deadline {
			t.Fatalf("%+v, %v", now, err)
		}
	}
	entries, _ := store.As[store.Shared](s)
	var found []string
	for e, err := range entries.ListState(t.Context(), "audit/", 0) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, string(e.Value))
	}
	if len(found) != 1 || !strings.Contains(found[0], `"who":"new","action":"topics declare"`) ||
		!strings.Contains(found[0], `"change":"deadline 40s, was 20s"`) {
		t.Fatalf("audit: %q", found)
	}
	if strings.Count(log.String(), "deadline 40s, was 20s") != 1 {
		t.Fatalf("log: %s", log.String())
	}
}

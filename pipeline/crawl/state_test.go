package crawl

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// bare is a store that can do no more than every store must.
type bare struct{ store.Store }

// TestStateIsInASecondStore: where the daemon's store cannot carry a crawl, it is in the one that state names; without
// that it is refused, and state is named.
func TestStateIsInASecondStore(t *testing.T) {
	second, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "state.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.Close() }()
	opened := ""
	env := pipeline.Env{Name: "shop", Store: bare{memory.New(memory.Config{})}, Logger: slog.New(slog.DiscardHandler),
		Owner: "test", Open: func(_ context.Context, url string) (store.Store, error) {
			opened = url
			return second, nil
		}}
	values := map[string]any{"seeds": []string{"http://127.0.0.1:1/"}, "scope": ScopeHost, "concurrency": int64(1),
		"per_host": int64(1), "timeout": Defaults().Timeout, "max_bytes": int64(1), "user_agent": defaultAgent,
		"allow_private": true, "cache": noCache}
	env.Section = pipeline.NewSection(fields(), values)
	if _, err := open(t.Context(), env); err == nil || !strings.Contains(err.Error(), "no marks") {
		t.Errorf("without a second store: %v", err)
	}
	values["state"] = "sqlite:state.db"
	env.Section = pipeline.NewSection(fields(), values)
	made, err := open(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	if opened != "sqlite:state.db" || len(made.Stages) != 1 || made.Stages[0].Store != store.Store(second) {
		t.Errorf("opened %q; %+v", opened, made.Stages)
	}
	stats, err := second.Stats(t.Context(), "shop.request")
	if err != nil || len(stats) != 1 || stats[0].Waiting != 1 {
		t.Errorf("the seed is not there: %+v, %v", stats, err)
	}
}

// TestChangedCrawlOfADaemon: the crawl that is not finished holds up another one in its store, and the error says what
// to do about it in a section.
func TestChangedCrawlOfADaemon(t *testing.T) {
	s := memory.New(memory.Config{})
	values := map[string]any{"seeds": []string{"http://127.0.0.1:1/"}, "scope": ScopeHost, "concurrency": int64(1),
		"per_host": int64(1), "timeout": Defaults().Timeout, "max_bytes": int64(1), "user_agent": defaultAgent,
		"allow_private": true, "cache": noCache}
	env := pipeline.Env{Name: "shop", Store: s, Logger: slog.New(slog.DiscardHandler), Owner: "test",
		Section: pipeline.NewSection(fields(), values)}
	if _, err := open(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	values["seeds"] = []string{"http://127.0.0.1:1/other"}
	_, err := open(t.Context(), env)
	e, ok := errors.AsType[*pipeline.Error](err)
	if !ok || !strings.Contains(e.Next, "pipelines.shop") || strings.Contains(e.Next, "--") {
		t.Errorf("%+v", err)
	}
}

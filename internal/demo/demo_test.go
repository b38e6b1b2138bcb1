package demo

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store/memory"
)

func config(t *testing.T, pages int) Config {
	t.Helper()
	return Config{
		Run: Run{Pages: pages, Seed: 7}, Store: memory.New(memory.Config{}), Dir: t.TempDir(),
		Board: io.Discard, Logger: slog.New(slog.DiscardHandler),
	}
}

func TestTheAccountCloses(t *testing.T) {
	t.Parallel()
	c := config(t, 300)
	sum, err := Crawl(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if !sum.Closes || sum.Reachable != 300 || int(sum.Dead) != lasting[broken]+lasting[failing] {
		t.Fatalf("%+v", sum)
	}
	if sum.Retries == 0 || sum.Duplicate == 0 {
		t.Errorf("no retry or no duplicate link: the site was too kind: %+v", sum)
	}
	text, err := os.ReadFile(filepath.Join(c.Dir, "pages.jsonl"))
	if err != nil || int64(strings.Count(string(text), "\n")) != sum.Stored {
		t.Fatalf("%d lines for %d pages: %v", strings.Count(string(text), "\n"), sum.Stored, err)
	}
}

func TestACrawlThatWasCutShortGoesOn(t *testing.T) {
	t.Parallel()
	c := config(t, 300)
	short, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := Crawl(short, c); !errors.Is(err, ErrUnfinished) {
		t.Fatalf("cut short: %v", err)
	}
	if _, err := Crawl(t.Context(), c); !errors.Is(err, ErrStarted) {
		t.Fatalf("begun again over what is there: %v", err)
	}
	c.Resume = true
	c.Run = Run{} // what was begun counts, not what is said now
	sum, err := Crawl(t.Context(), c)
	if err != nil || !sum.Closes || sum.Reachable != 300 {
		t.Fatalf("%+v, %v", sum, err)
	}
	again, err := Crawl(t.Context(), c)
	if err != nil || again.Stored != sum.Stored || again.Requests != sum.Requests {
		t.Errorf("one that is finished came to %+v, then to %+v, %v", sum, again, err)
	}
}

package operate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/store"
)

// schema is a store whose schema has these steps.
type schema struct {
	store.Migrator
	steps []store.Migration
}

func (s schema) Migrations(context.Context) ([]store.Migration, error) { return s.steps, nil }

// TestPlanMigration: whoever is registered and lives has to stop before a step that is missing, and nobody else.
func TestPlanMigration(t *testing.T) {
	e := newExplained(t)
	entries, _ := store.As[store.Shared](e.Store)
	put := func(owner string) {
		_, err := entries.PutState(t.Context(), roster.Prefix+owner,
			[]byte(`{"owner":"`+owner+`","version":"1.2","started_at":"2026-01-01T00:00:00Z","topics":[]}`), 0, owner)
		e.check(err)
	}
	put("gone")
	e.now = e.now.Add(10 * time.Minute)
	put("alive")
	begin := store.Migration{Version: 1, Name: "begin", AppliedAt: e.now}
	for _, c := range []struct {
		steps []store.Migration
		want  string
	}{
		{[]store.Migration{begin}, "the schema is up to date: replace programs one by one\n"},
		{[]store.Migration{begin, {Version: 2, Name: "labels"}}, "missing    version 2, labels\n" +
			"must stop  alive, version 1.2\nnext       stop them, run `pawl migrate up`, and start the new version\n"},
		{[]store.Migration{{Version: 1, Name: "begin"}}, "missing    version 1, begin\n" +
			"next       run `pawl migrate up`\n"},
	} {
		p, err := PlanMigration(t.Context(), e.Store, schema{steps: c.steps})
		e.check(err)
		var text strings.Builder
		if p.Describe(&text); text.String() != c.want {
			t.Errorf("%s, want %s", &text, c.want)
		}
	}
	_, err := PlanMigration(t.Context(), e.Store, schema{steps: []store.Migration{begin, {Version: 2, Newer: true}}})
	if !errors.Is(err, store.ErrSchema) {
		t.Errorf("of a newer schema: %v", err)
	}
}

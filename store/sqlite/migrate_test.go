package sqlite

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// TestOpenMigrates: a file that an older program left behind gets what is
// missing when it is opened, and keeps its messages. The older program refuses it.
func TestOpenMigrates(t *testing.T) {
	c := Config{Path: filepath.Join(t.TempDir(), "pawl.db")}
	s := open(t, c)
	if _, err := s.Append(t.Context(), store.NewBatch(pawl.Message{ID: "a", Topic: "t"})); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	known := steps
	steps = func() []sqlstore.Step {
		return append(slices.Clone(known()), sqlstore.Step{Version: len(known()) + 1, Name: "later",
			Up: "CREATE TABLE pawl_later (n INTEGER) STRICT;", Down: "DROP TABLE pawl_later;"})
	}
	t.Cleanup(func() { steps = known })
	s = open(t, c)
	if _, err := s.Get(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutState(t.Context(), "k", nil, 0, "w"); err != nil {
		t.Fatal(err)
	}
	all, err := s.Migrations(t.Context())
	for _, m := range all {
		if err != nil || m.AppliedAt.IsZero() {
			t.Fatalf("%+v is not applied (%v)", m, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	steps = known
	if _, err := Open(t.Context(), c); !errors.Is(err, store.ErrSchema) {
		t.Errorf("a program that lacks the last step: %v", err)
	}
}

// TestDamagedSchema: a file that lost a table is refused with what can be done, by
// whoever opens it, writer or reader. A migration would not bring back its rows.
func TestDamagedSchema(t *testing.T) {
	for table, why := range map[string]string{
		"pawl_msg":       "recorded as applied, but table pawl_msg is missing",
		"pawl_migration": "nothing is recorded in pawl_migration",
	} {
		c := Config{Path: filepath.Join(t.TempDir(), "pawl.db")}
		if err := open(t, c).Close(); err != nil {
			t.Fatal(err)
		}
		db, err := connect(t.Context(), dsn(c.Path, "mode=rw"))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.script("DROP TABLE "+table), db.close()); err != nil {
			t.Fatal(err)
		}
		reader := c
		reader.ReadOnly = true
		for _, c := range []Config{c, reader} {
			_, err := Open(t.Context(), c)
			if e, ok := errors.AsType[*store.Error](err); !ok || e.Code != store.ErrSchema ||
				!strings.Contains(err.Error(), why) || !strings.Contains(e.Hint, "restore a backup") {
				t.Errorf("without %s, read only %v: %v", table, c.ReadOnly, err)
			}
		}
		reader.NoCheck = true
		s := open(t, reader)
		if _, err := s.Migrations(t.Context()); !errors.Is(err, store.ErrSchema) {
			t.Errorf("without %s: %v", table, err)
		}
	}
}

package app

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/mirror"
)

// twice are two URLs of one file that do not look alike.
func twice(t *testing.T) (first, second string) {
	t.Helper()
	folder := t.TempDir()
	return "sqlite:" + filepath.Join(folder, "pawl.db"), "sqlite:" + folder + "/./pawl.db"
}

func opened(t *testing.T, url string) store.Store {
	t.Helper()
	s, err := Open(t.Context(), OpenConfig{URL: url, AutoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestTrafficWantsTwoStores: a cut-over consumes what is in the new store, which must not
// be the old one by another name.
func TestTrafficWantsTwoStores(t *testing.T) {
	inMemory := memory.New(memory.Config{})
	if _, err := NewTraffic(t.Context(), inMemory, inMemory, "tester", "memory:"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("of a store and itself: %v", err)
	}
	first, second := twice(t)
	from := opened(t, first)
	if _, err := NewTraffic(t.Context(), from, opened(t, second), "tester", second); !errors.Is(err, store.ErrConflict) {
		t.Errorf("of two handles on one file: %v", err)
	}
	if _, err := NewTraffic(t.Context(), from, opened(t, "sqlite:"+filepath.Join(t.TempDir(), "new.db")), "tester", "sqlite:new.db"); err != nil {
		t.Errorf("of two files: %v", err)
	}
	state, _ := store.As[store.Entries](from)
	for e, err := range state.ListState(t.Context(), "traffic/", 0) {
		t.Errorf("the state keeps %s, %v", e.Key, err)
	}
}

// TestMirrorOfItself: a process whose mirror is its own store neither appends there nor
// claims there, and opens it once.
func TestMirrorOfItself(t *testing.T) {
	first, second := twice(t)
	from := opened(t, first)
	plans, err := mirror.OpenPlans(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := plans.Put(t.Context(), &mirror.Plan{Topic: "mail", Stage: mirror.Moved}, "tester"); err != nil {
		t.Fatal(err)
	}
	through, err := Mirror(from, OpenConfig{URL: second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = through.Close() }()
	for range 2 {
		if _, err := through.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "mail"})); !errors.Is(err, store.ErrConflict) {
			t.Errorf("append: %v", err)
		}
	}
	if ds, err := through.Claim(t.Context(), []store.Want{{Topic: "mail", Limit: 1}}, store.Lease{For: time.Second}); !errors.Is(err, store.ErrConflict) {
		t.Errorf("claimed %d: %v", len(ds), err)
	}
}

// TestSameStore tells spellings that are surely of one store.
func TestSameStore(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"sqlite:pawl.db", "sqlite:./pawl.db", true},
		{"sqlite:pawl.db", "sqlite:pawl.db?codec=lz4", true},
		{"sqlite:pawl.db", "sqlite:new.db", false},
		{"postgres://me@db/jobs", "postgresql://you:secret@DB:5432/jobs?sslmode=disable", true},
		{"postgres://me@db/jobs", "postgres://me@db/jobs?pawl_schema=new", false},
		{"kafka://a,b:9092?group=x", "kafka://B:9092,a:9092?group=y", true},
		{"kafka://a?prefix=x.", "kafka://a?prefix=y.", false},
		{"sqlite:pawl.db", "kafka://a?relay=sqlite:pawl.db", false},
		{"memory:", "memory:x", false},
	} {
		if SameStore(c.a, c.b) != c.same {
			t.Errorf("%s and %s are one: %v", c.a, c.b, !c.same)
		}
	}
}

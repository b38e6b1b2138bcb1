package migrate

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// twice are two URLs of one file that do not look alike.
func twice(t *testing.T) (first, second string) {
	t.Helper()
	folder := t.TempDir()
	return "sqlite:" + filepath.Join(folder, "pawl.db"), "sqlite:" + folder + "/./pawl.db"
}

func opened(t *testing.T, url string) store.Store {
	t.Helper()
	s, err := open.Open(t.Context(), open.Config{URL: url, AutoMigrate: true})
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
	if _, err := New(t.Context(), inMemory, inMemory, "tester", "memory:"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("of a store and itself: %v", err)
	}
	first, second := twice(t)
	from := opened(t, first)
	if _, err := New(t.Context(), from, opened(t, second), "tester", second); !errors.Is(err, store.ErrConflict) {
		t.Errorf("of two handles on one file: %v", err)
	}
	if _, err := New(t.Context(), from, opened(t, "sqlite:"+filepath.Join(t.TempDir(), "new.db")), "tester",
		"sqlite:new.db"); err != nil {
		t.Errorf("of two files: %v", err)
	}
	state, _ := store.As[store.Shared](from)
	for e, err := range state.ListState(t.Context(), "traffic/", 0) {
		t.Errorf("the state keeps %s, %v", e.Key, err)
	}
}

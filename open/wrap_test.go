package open_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// TestRelayAndFallbackAreTwo: one database is not both, however it is written: what
// waits in the relay would be taken for a row of the fallback.
func TestRelayAndFallbackAreTwo(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		relay, fallback string
		same            bool
	}{
		{"sqlite:" + dir + "/one.db", "sqlite:" + dir + "/one.db", true},
		{"sqlite:" + dir + "/one.db", "SQLite://" + dir + "/./link/one.db?synchronous=normal", true},
		{"sqlite:" + dir + "/one.db", "sqlite:" + dir + "/two.db", false},
		{"memory:", "memory:", false},
		{"postgres://u:secret@127.0.0.1:1/d", "postgresql://v:secret@127.0.0.1:1/d?pawl_schema=pawl%26pawl_max_conns=3",
			true},
		{"postgres://u:secret@127.0.0.1:1/d", "postgres://u:secret@127.0.0.1:1/e", false},
		{"postgres://u:secret@127.0.0.1:1/d", "postgres://u:secret@127.0.0.1:1/d?pawl_schema=spill", false},
		{"postgres://u:secret@127.0.0.1/d", "postgres://u:secret@127.0.0.1:5432/d", true},
	} {
		s, err := open.Open(t.Context(), open.Config{URL: "nothing:?relay=" + c.relay + "&fallback=" + c.fallback})
		if err == nil {
			_ = s.Close()
			t.Fatal("there is no such store")
		}
		same := errors.Is(err, open.ErrURL) && strings.Contains(err.Error(), "are one database")
		if same != c.same || strings.Contains(err.Error(), "secret") {
			t.Errorf("relay %s and fallback %s: %v", c.relay, c.fallback, err)
		}
	}
}

// What is wrong with a folder of blobs reaches who opens the store: its code and its hint, not only its text.
func TestFaultOfTheBlobsIsWrapped(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := open.Open(t.Context(), open.Config{URL: "memory:?codec=lz4&blobs=" + dir})
	if err == nil {
		_ = s.Close()
		t.Fatal("a folder of something else is taken for a folder of blobs")
	}
	if !errors.Is(err, open.ErrURL) || !errors.Is(err, store.ErrConflict) || store.Hint(err) == "" {
		t.Errorf("the error is %v with the hint %q, want a conflict with one", err, store.Hint(err))
	}
}

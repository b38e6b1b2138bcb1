package open_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// What is wrong with a folder of blobs reaches who opens the store: its code and its hint, not only its text.
func TestFaultOfTheBlobsIsWrapped(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := open.Open(t.Context(), open.Config{URL: "memory:?codec=zstd&blobs=" + dir})
	if err == nil {
		_ = s.Close()
		t.Fatal("a folder of something else is taken for a folder of blobs")
	}
	if !errors.Is(err, open.ErrURL) || !errors.Is(err, store.ErrConflict) || store.Hint(err) == "" {
		t.Errorf("the error is %v with the hint %q, want a conflict with one", err, store.Hint(err))
	}
}

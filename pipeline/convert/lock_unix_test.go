//go:build unix

package convert

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// One at a time has the lock, although its file and folder are removed each time.
func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".pawl")
	var holders, taken atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 200 {
				release, ok, err := lock(filepath.Join(dir, "lock"))
				if err != nil {
					t.Error(err)
				}
				if !ok {
					continue
				}
				if taken.Add(1); holders.Add(1) != 1 {
					t.Error("two have the lock")
				}
				holders.Add(-1)
				release()
			}
		})
	}
	all.Wait()
	if _, err := os.Stat(dir); taken.Load() == 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("taken %d times; %v", taken.Load(), err)
	}
}

// TestLockOfAFolderThatCannotBe fails, where it would try for ever.
func TestLockOfAFolderThatCannotBe(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".pawl")
	if err := os.Symlink(filepath.Join(t.TempDir(), "nowhere", "at", "all"), dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := lock(filepath.Join(dir, "lock")); err == nil {
		t.Error("a link to nowhere is locked")
	}
}

package doctor

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// The doctor has the file open as a store, and whoever closes another handle of it drops
// the locks that keep other processes away.
func TestDoctorKeepsTheLocksOfTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	made, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // when the store is closed
	d := &Doctor{Open: open.Config{URL: "sqlite:" + path}}
	s := d.reach(t.Context())
	if s == nil || d.ill("store") {
		t.Fatal(d.found)
	}
	defer func() { _ = s.Close() }()
	// Locks of an open file, which is what is asked about here, stand in the way of those
	// of a process, also its own.
	const look = 36 // F_OFD_GETLK
	lock := syscall.Flock_t{Type: syscall.F_WRLCK}
	if err := syscall.FcntlFlock(f.Fd(), look, &lock); err != nil {
		t.Fatal(err)
	}
	if lock.Type == syscall.F_UNLCK {
		t.Error("the store is open, and its file has no lock")
	}
}

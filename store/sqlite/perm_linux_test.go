package sqlite

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/store"
)

// TestPermissions: as a user who may not write.
func TestPermissions(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	path := filepath.Join(dir, "pawl.db")
	must(t, open(t, Config{Path: path}).Close())
	empty := filepath.Join(dir, "empty")
	must(t, os.Mkdir(empty, 0o755))
	secret := filepath.Join(dir, "secret")
	must(t, os.Mkdir(secret, 0o700))
	try := func(path string) error {
		s, err := Open(t.Context(), Config{Path: path})
		if err == nil {
			_ = s.Close()
		}
		return err
	}
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chmod(path, 0o444))
	if os.Getuid() == 0 {
		// The thread ends with the goroutine, and nobody else gets it.
		runtime.LockOSThread()
		must(t, syscall.Setfsuid(65534))
	} else {
		must(t, os.Chmod(empty, 0o555))
		must(t, os.Chmod(secret, 0))
	}
	says(t, try(path), store.ErrDenied, "write permission")
	says(t, try(filepath.Join(empty, "pawl.db")), store.ErrDenied, "permission")
	says(t, try(filepath.Join(secret, "pawl.db")), store.ErrDenied, "access to the folder")
	if os.Getuid() == 0 {
		must(t, syscall.Setfsuid(0))
	} else {
		must(t, os.Chmod(secret, 0o700))
	}
}

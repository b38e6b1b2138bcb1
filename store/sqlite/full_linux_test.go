package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFullDisk: a file system of 4 MB runs full, and grows.
func TestFullDisk(t *testing.T) {
	p, err := startAs(t, "filler", filepath.Join(t.TempDir(), "pawl.db"),
		&syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS})
	if errors.Is(err, syscall.EPERM) {
		t.Skip("this user may not mount a file system of its own")
	}
	must(t, err)
	_ = p.stdin.Close()
	for range p.facts {
		continue
	}
	if err := p.cmd.Wait(); err != nil && strings.Contains(p.errs.String(), cannotMount) {
		t.Skip("this user may not mount a file system of its own")
	} else if err != nil {
		t.Fatalf("%v\n%s", err, p.errs)
	}
}

const cannotMount = "cannot mount"

// beFiller plays in a mount namespace of its own.
func beFiller(path string) error {
	dir := filepath.Dir(path)
	if err := syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return errors.New(cannotMount)
	}
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=4m"); err != nil {
		return errors.New(cannotMount)
	}
	ctx := context.Background()
	s, err := Open(ctx, Config{Path: path})
	if err != nil {
		return err
	}
	err = fillUp(ctx, s, func() error { return syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m") })
	return errors.Join(err, s.Close())
}

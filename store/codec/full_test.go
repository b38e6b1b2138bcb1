//go:build linux

package codec_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
)

// TestFullDisk fills the file system of the folder. It needs the right to mount one.
func TestFullDisk(t *testing.T) {
	r := newRig(t, codec.Config{Offload: 1024})
	parent := filepath.Join(t.TempDir(), "disk")
	r.must(os.Mkdir(parent, 0o700))
	if err := syscall.Mount("none", parent, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("no file system of its own: %v", err)
	}
	t.Cleanup(func() { r.must(syscall.Unmount(parent, 0)) })
	r.blobs = filepath.Join(parent, "blobs")
	r.wrap(codec.Config{Offload: 1024})
	filler := filepath.Join(parent, "filler")
	withoutRoom(r, store.ErrFull, func() { // there is room for a part of a body
		r.must(os.WriteFile(filler, noise(1<<20, 1), 0o600))
	}, func() { r.must(os.Remove(filler)) })
	withoutRoom(r, store.ErrFull, func() {
		if err := os.WriteFile(filler, noise(4<<20, 1), 0o600); !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}, func() { r.must(os.Remove(filler)) })
}

// limitedVariable is set in the process whose files are limited.
const limitedVariable = "PAWL_CODEC_TEST_LIMITED"

// TestLimitedFiles lets no file become as large as a body, in a process of its own:
// the limit is for all that a process writes.
func TestLimitedFiles(t *testing.T) {
	if os.Getenv(limitedVariable) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLimitedFiles$", "-test.v")
		cmd.Env = append(os.Environ(), limitedVariable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out),
			"--- PASS: TestLimitedFiles") {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	r := newRig(t, codec.Config{Offload: 1024})
	var whole syscall.Rlimit
	r.must(syscall.Getrlimit(syscall.RLIMIT_FSIZE, &whole))
	restore := func() { r.must(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &whole)) }
	t.Cleanup(restore)
	withoutRoom(r, store.ErrUnavailable, func() {
		r.must(syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 512 << 10, Max: whole.Max}))
	}, restore)
}

// withoutRoom takes the room away and gives it back. Meanwhile a call that needs some
// fails clearly and leaves nothing behind, work that was done is settled all the same,
// and what was there is there.
func withoutRoom(r *rig, code error, take, giveBack func()) {
	r.Helper()
	r.problems = nil
	there, large, small := noise(300_000, 7), noise(1_500_000, 8), []byte("small")
	r.put(msg([]byte("work")), msg(there))
	work := r.claimed(store.Want{Limit: 1})[0]
	before := everyFile(r)
	take()
	_, err := r.Append(r.Context(), store.NewBatch(msg(small), msg(large)))
	wantCode(r, err, code)
	if e, ok := errors.AsType[*store.Error](err); !ok || e.Op != "write blob" || !strings.Contains(e.Hint, r.blobs) {
		r.Errorf("nobody knows what to do about: %v", err)
	}
	if after := everyFile(r); after != before {
		r.Errorf("files are left behind, where there is no room:\n%s\nbefore:\n%s", after, before)
	}
	r.bodies(there) // and nothing of the call that failed
	r.put(msg(there))
	r.settle(store.Settlement{Token: work.Token, ID: work.ID, Verdict: store.Ack, Emit: []pawl.Message{msg(large)}})
	if p := r.reported(1)[0]; !errors.Is(p.Err, code) || p.Action != "stored with its body inside" {
		r.Errorf("problem %+v", p)
	}
	r.bodies(there, large)
	giveBack()
	r.put(msg(small), msg(large))
	r.bodies(small, large)
	for _, name := range r.files() {
		r.must(os.Remove(name))
	}
}

// everyFile lists the folder with all that is in it.
func everyFile(r *rig) string {
	r.Helper()
	var all []string
	r.must(filepath.WalkDir(r.blobs, func(name string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, name)
		}
		return err
	}))
	return strings.Join(all, "\n")
}

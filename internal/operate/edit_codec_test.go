package operate

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// TestEditOfWhatCannotBeRead: what is stored is not what was there, and is not in the
// audit as that.
func TestEditOfWhatCannotBeRead(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "blobs")
	s, err := open.Open(t.Context(), open.Config{URL: "sqlite:" + filepath.Join(t.TempDir(),
		"x.db") + "?offload=1024&blobs=" + folder})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	noise := make([]byte, 4000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	letters, _ := store.As[store.DeadLetters](s)
	now := time.Now().Truncate(time.Millisecond)
	letter := store.Record{Message: pawl.Message{ID: "a", Topic: "t", Body: noise}, State: store.IsDead,
		EnqueuedAt: now, DeadAt: now}
	if refused, err := letters.Import(t.Context(), letter); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	files, _ := filepath.Glob(folder + "/??/??/*")
	if len(files) != 1 || os.Remove(files[0]) != nil {
		t.Fatal(files)
	}
	ops, err := OpenOperations(s)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := ParsePatch(".x = 1")
	if err != nil {
		t.Fatal(err)
	}
	patched := &editor{ops, &Operation{ID: "o", Edit: ".x = 1"}, "who", patch}
	if refused, err := patched.before(t.Context(), []string{"a"}); err != nil || refused["a"] == nil ||
		!strings.Contains(refused["a"].Error(), "is missing") {
		t.Errorf("patched: %v, %v", refused, err)
	}
	for _, body := range []string{"", "new"} {
		if changed, err := EditLetter(t.Context(), ops, "a", "who", "by hand", "because",
			func([]byte) ([]byte, error) { return []byte(body), nil }); err != nil || !changed {
			t.Fatal(changed, err)
		}
	}
	r, err := ops.Look.Get(t.Context(), "a")
	if err != nil || string(r.Body) != "new" {
		t.Fatal(r, err)
	}
	log, err := ListAudit(t.Context(), s, AuditFilter{})
	if err != nil || len(log) != 2 || log[0].OriginalBody != nil || log[0].OriginalSHA256 != "" ||
		!strings.Contains(log[0].Reason, "is missing") ||
		log[1].OriginalBody == nil || *log[1].OriginalBody != "" {
		t.Errorf("audit %+v, %v", log, err)
	}
}

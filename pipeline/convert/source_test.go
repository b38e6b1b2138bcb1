package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/pipeline"
)

// TestFoldersThatCannotBeRead: a run that could not look at all of its source is not done, and says so.
func TestFoldersThatCannotBeRead(t *testing.T) {
	r := newRig(t)
	r.write("a.md", "a\n")
	r.write("deep/b.md", "b\n")
	at, err := os.OpenRoot(filepath.Join(r.src, "deep"))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // too deep for any path
		name := strings.Repeat("d", 250)
		if err := at.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := at.OpenRoot(name)
		if err != nil {
			t.Fatal(err)
		}
		_, at = at.Close(), next
	}
	defer func() { _ = at.Close() }()
	for _, flags := range []map[string]any{nil, {"resume": true}} {
		s, err := r.run(t.Context(), flags)
		if code(err) != pipeline.ExitPartly || s.Unreadable != 1 || s.Files != 2 || s.PermanentFailure != 0 {
			t.Errorf("%v %+v", err, s)
		}
	}
	if n := strings.Count(r.log.buf.String(), "Not readable"); n != 2 {
		t.Errorf("it is logged %d times in two runs", n)
	}
}

// TestOutIsTheSource: the folder of the outputs is no source, so nothing would be converted.
func TestOutIsTheSource(t *testing.T) {
	r := newRig(t)
	r.write("a.md", "a\n")
	r.out = filepath.Join(r.src, "..", "src")
	if s, err := r.run(t.Context(), nil); code(err) != pipeline.ExitUsage {
		t.Errorf("%v %+v", err, s)
	}
	r.out = filepath.Join(r.src, "out")
	if s, err := r.run(t.Context(), nil); err != nil || s.Completed != 1 {
		t.Errorf("a folder in the source: %v %+v", err, s)
	}
}

package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestPicturesThatAreNotKept: a document is not done without its pictures, and one that was cut off is written again.
func TestPicturesThatAreNotKept(t *testing.T) {
	r := newRig(t)
	r.write("a.html", `<p>one<img src="data:image/png;base64,iVBORw0KGgo="></p>`)
	dir := filepath.Join(r.src, "..", "pictures")
	if err := os.WriteFile(dir, nil, 0o644); err != nil { // no folder
		t.Fatal(err)
	}
	flags := map[string]any{"images": dir, "max-retries": int64(0), "retry-failed": true}
	if s, err := r.run(t.Context(), flags); code(err) != pipeline.ExitPartly || s.PermanentFailure != 1 {
		t.Errorf("%v %+v", err, s)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if s, err := r.run(t.Context(), flags); err != nil || s.Completed != 1 {
		t.Fatalf("%v %+v", err, s)
	}
	kept, err := filepath.Glob(filepath.Join(dir, "*.png"))
	if err != nil || len(kept) != 1 {
		t.Fatal(err, kept)
	}
	if err := os.WriteFile(kept[0], []byte("\x89PN"), 0o644); err != nil {
		t.Fatal(err)
	}
	if s, err := r.run(t.Context(), flags); err != nil || s.Unchanged != 1 {
		t.Errorf("%v %+v", err, s)
	}
	delete(flags, "retry-failed")
	flags["fresh"] = true
	if s, err := r.run(t.Context(), flags); err != nil || s.Completed != 1 {
		t.Errorf("%v %+v", err, s)
	}
	if got, err := os.ReadFile(kept[0]); err != nil || string(got) != "\x89PNG\r\n\x1a\n" {
		t.Errorf("the picture is %q, %v", got, err)
	}
	if err := os.Remove(kept[0]); err != nil {
		t.Fatal(err)
	}
	delete(flags, "fresh")
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(r.src, "a.html"), later, later); err != nil {
		t.Fatal(err)
	}
	for _, want := range []Summary{{Completed: 1}, {Unchanged: 1}} {
		s, err := r.run(t.Context(), flags)
		if _, gone := os.Stat(kept[0]); err != nil || s.Completed != want.Completed || s.Unchanged != want.Unchanged ||
			gone != nil {
			t.Errorf("a picture is gone: %v %+v, %v", err, s, gone)
		}
	}
}

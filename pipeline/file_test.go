package pipeline_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/pipeline"
)

func TestWriteFileReplacesAFileAsAWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "out.txt")
	content := func() string {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, text := range []string{"first", "second"} {
		err := pipeline.WriteFile(name, 0o600, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		})
		if err != nil || content() != text {
			t.Fatalf("the file has %q, error %v", content(), err)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	broken := errors.New("broken")
	err := pipeline.WriteFile(name, 0o600, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half of the th")
		if content() != "second" {
			t.Error("half of the new content is visible")
		}
		return broken
	})
	if !errors.Is(err, broken) || content() != "second" {
		t.Errorf("after a failed write the file has %q, error %v", content(), err)
	}
	if err := pipeline.WriteFile(filepath.Join(dir, "missing", "x"), 0o600, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v is left, error %v", files, err)
	}
}

// Git ignores what is kept in a folder .pawl, which is there as long as something is.
func TestStateIsIgnored(t *testing.T) {
	top := filepath.Join(t.TempDir(), ".pawl")
	inner := filepath.Join(top, "crawl", "ab")
	for range 2 {
		if err := pipeline.MakeState(inner); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(top, ".gitignore")); err != nil || string(text) != "*\n" {
			t.Fatalf("%q, %v", text, err)
		}
		pipeline.RemoveState(filepath.Dir(inner)) // something is in it
		if err := pipeline.MakeState(inner); err != nil {
			t.Fatal(err)
		}
		pipeline.RemoveState(inner)
		pipeline.RemoveState(filepath.Dir(inner))
		if _, err := os.Stat(top); !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(top, 0o755), pipeline.MakeState(inner)); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(top, ".gitignore")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that was there: %v", err)
	}
}

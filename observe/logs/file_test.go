package logs_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/observe/logs"
)

// inFile logs lines to a file, each on its own.
func inFile(t *testing.T, c logs.FileConfig, lines ...string) {
	t.Helper()
	o, err := logs.OpenFile(c)
	if err != nil {
		t.Fatal(err)
	}
	log := logs.New(logs.Config{Sinks: []logs.Sink{{Name: "file", Output: o}}})
	for _, line := range lines {
		slog.New(log.Handler()).Info(line)
		time.Sleep(10 * time.Millisecond)
	}
	log.Close()
}

// names lists a folder.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func TestFileBySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "logs", "pawl.log")
		var lines []string
		for i := range 10 {
			lines = append(lines, fmt.Sprintf("line%d", i))
		}
		inFile(t, logs.FileConfig{Path: path, MaxBytes: 120, MaxFiles: 3}, lines...)
		all := names(t, filepath.Dir(path))
		if len(all) != 4 || all[0] != "pawl.log" || !slices.IsSorted(all) {
			t.Fatalf("%q, want the current file and three", all)
		}
		var text strings.Builder
		for _, name := range append(all[1:], all[0]) {
			b, err := os.ReadFile(filepath.Join(filepath.Dir(path), name))
			if err != nil || len(b) > 120 {
				t.Errorf("%s has %d bytes: %v", name, len(b), err)
			}
			text.Write(b)
		}
		if strings.Count(text.String(), "\n") != 8 || !strings.HasSuffix(text.String(), "message=line9\n") ||
			strings.Contains(text.String(), "line1") || !strings.Contains(text.String(), "line2") {
			t.Errorf("the newest are kept, in their order:\n%s", text.String())
		}
	})
}

func TestFileByDay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.log")
	inFile(t, logs.FileConfig{Path: path, Daily: true}, "first")
	yesterday := time.Now().AddDate(0, 0, -1)
	if err := os.Chtimes(path, yesterday, yesterday); err != nil {
		t.Fatal(err)
	}
	inFile(t, logs.FileConfig{Path: path, Daily: true}, "second")
	want := []string{"pawl.log", "pawl.log." + yesterday.Format("2006-01-02")}
	if all := names(t, filepath.Dir(path)); !slices.Equal(all, want) {
		t.Errorf("%q, want %q", all, want)
	}
	if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), "first") {
		t.Errorf("%s %v", b, err)
	}
}

func TestFileThatIsMovedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "pawl.log")
		o, err := logs.OpenFile(logs.FileConfig{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		log := logs.New(logs.Config{Sinks: []logs.Sink{{Name: "file", Output: o}}})
		l := slog.New(log.Handler())
		l.Info("before")
		time.Sleep(time.Second)
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		l.Info("after")
		log.Close()
		if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), "after") {
			t.Errorf("%s %v", b, err)
		}
	})
}

func TestFolderThatCannotBeMade(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := logs.OpenFile(logs.FileConfig{Path: filepath.Join(dir, "a", "b")}); err == nil {
		t.Error("it can")
	}
}

package arch

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var asksForServer = regexp.MustCompile(`PAWL_TEST_(POSTGRES|KAFKA|OPENSEARCH|REDIS|SERVICES)`)

// TestServedListIsComplete compares dev/served.txt with the folders whose tests name a server: a folder that is missing
// there would skip its tests in CI, and one too many would run them without need.
func TestServedListIsComplete(t *testing.T) {
	root := os.DirFS(filepath.Join("..", ".."))
	list, err := fs.ReadFile(root, "dev/served.txt")
	if err != nil {
		t.Fatal(err)
	}
	var listed, found []string
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) == 2 && slices.Contains([]string{"race", "plain", "strict"}, fields[0]) {
			listed = append(listed, fields[1])
		}
	}
	err = fs.WalkDir(root, ".", func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		apart := []string{".git", ".services", "bench", "dev", "internal/arch"}
		if d.IsDir() && slices.Contains(apart, at) {
			return fs.SkipDir
		}
		if !strings.HasSuffix(at, "_test.go") || slices.Contains(found, path.Dir(at)) {
			return nil
		}
		text, err := fs.ReadFile(root, at)
		if asksForServer.Match(bytes.TrimSpace(text)) {
			found = append(found, path.Dir(at))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(listed)
	slices.Sort(found)
	if !slices.Equal(listed, found) {
		t.Errorf("dev/served.txt names\n%q, but these folders have tests that ask for a server:\n%q", listed, found)
	}
}

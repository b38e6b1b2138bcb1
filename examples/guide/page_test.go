package guide_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// flat is code without its indentation, so that a part of a function can be found in its file.
func flat(code string) string {
	lines := strings.Split(strings.TrimSpace(code), "\n")
	for i := range lines {
		lines[i] = strings.TrimLeft(lines[i], "\t")
	}
	return strings.Join(lines, "\n")
}

// What docs/go.md shows is what the tests of this folder run.
func TestPageShowsWhatRuns(t *testing.T) {
	page, err := os.ReadFile("../../docs/go.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var sources strings.Builder
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sources.WriteString(flat(string(text)))
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 10 {
		t.Errorf("%d pieces of code were found on the page", len(blocks))
	}
	for _, b := range blocks {
		if !strings.Contains(sources.String(), flat(b[1])) {
			t.Errorf("no file of this folder has\n%s", b[1])
		}
	}
}

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The next step is that of the fault itself, where it names one: the URL is right, its folder is not.
func TestNextStepIsThatOfTheFolderOfBlobs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for url, next := range map[string]string{
		"memory:?codec=zstd&blobs=" + dir: "next: name an empty folder, or put the file back",
		"nothing:":                        "next: give --store or PAWL_STORE",
	} {
		out := &bytes.Buffer{}
		code := Run(t.Context(), "test", []string{"send", "mail", "hello", "--store", url},
			System{In: &bytes.Buffer{}, Out: out, Err: out, Getenv: func(string) string { return "" }})
		if code != exitUsage || !strings.Contains(out.String(), next) {
			t.Errorf("%s: ended with %d, want %q\n%s", url, code, next, out)
		}
	}
}

package pdf

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

// A file that only forbids copying or printing is read like any other; the test data was made by pypdf.
func TestSealedFilesThatAnybodyMayRead(t *testing.T) {
	const want = "# Sealed letter\n\nReadable without a password: café.\n\n[a link](https://example.com/a(b))\n"
	for _, name := range []string{"rc4-40", "rc4-128", "aes-128", "aes-256-r5", "aes-256"} {
		if got, err := convert(t, name); err != nil || got.Text != want {
			t.Errorf("%s: %q %v", name, got.Text, err)
		}
	}
	if _, err := convert(t, "locked"); pawl.Describe(err).Kind != doc.KindLocked {
		t.Errorf("with a password of its reader: %v", err)
	}
}

func convert(t *testing.T, name string) (doc.Markdown, error) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".pdf"))
	if err != nil {
		t.Fatal(err)
	}
	return Convert(t.Context(), doc.Document{Name: name + ".pdf", Data: data})
}

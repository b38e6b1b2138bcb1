//go:build unix

package tool_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/tool"
)

// installed makes scripts that stand in for the tools, the only ones along the PATH but for what scripts need.
func installed(t *testing.T, scripts map[string]string) *tool.Set {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	return tool.Find()
}

// The doctor names what is missing, and what for.
func TestMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	missing := tool.Find().Missing()
	for program, use := range map[string]string{"LibreOffice (soffice)": "doc, ppt", "Tesseract (tesseract)": "images",
		"Poppler (pdftoppm)": "PDF"} {
		if !strings.Contains(missing[program], use) {
			t.Errorf("%s: %q", program, missing[program])
		}
	}
	if set := installed(t, map[string]string{"soffice": "", "tesseract": "", "pdftoppm": ""}); len(set.Missing()) > 0 {
		t.Error(set.Missing())
	}
}

func document(kind string) doc.Document {
	return doc.Document{Type: kind, Data: []byte("old"), Trace: func(string, ...any) {}}
}

// soffice writes a file beside its input; the arguments are as LibreOffice takes them.
const soffice = `while [ $# -gt 1 ]; do case $1 in --convert-to) to=$2;; --outdir) out=$2;; -env:UserInstallation=file://*) profile=yes;; esac; shift; done
[ "$profile" = yes ] && { echo new; cat "$1"; } >"$out/document.$to"`

func TestOffice(t *testing.T) {
	set := installed(t, map[string]string{"soffice": soffice})
	got, err := set.Office("doc", "docx")(t.Context(), document("doc"))
	if err != nil || got.Type != "docx" || string(got.Data) != "new\nold" {
		t.Errorf("%q %q %v", got.Type, got.Data, err)
	}
}

// A program that fails, writes nothing or hangs is an error of its document, and nothing of it goes on.
func TestOfficeGivesUp(t *testing.T) {
	for name, script := range map[string]string{"fails": "echo no >&2; exit 3", "writes nothing": "exit 0"} {
		set := installed(t, map[string]string{"soffice": script})
		if _, err := set.Office("doc", "docx")(t.Context(),
			document("doc")); pawl.Describe(err).Kind != doc.KindCorrupt {
			t.Errorf("%s: %v", name, err)
		}
	}
	slow := errors.New("too slow")
	set := installed(t, map[string]string{"soffice": "sleep 600 & wait"})
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, slow)
	defer cancel()
	start := time.Now()
	if _, err := set.Office("doc", "docx")(ctx, document("doc")); !errors.Is(err, slow) ||
		time.Since(start) > time.Minute {
		t.Errorf("%v after %v", err, time.Since(start))
	}
}

func TestOCR(t *testing.T) {
	set := installed(t, map[string]string{
		"tesseract": `echo "text of $(cat "$1")"`,
		"pdftoppm":  `for p in 1 2; do printf 'page %s' $p >"page-$p.pgm"; done`,
	})
	if got, err := set.OCR(t.Context(), document("image")); err != nil || got.Text != "text of old\n" {
		t.Errorf("%q %v", got.Text, err)
	}
	if got, err := set.OCRPages(t.Context(), document("pdf")); err != nil ||
		got.Text != "text of page 1\n\ntext of page 2\n\n" {
		t.Errorf("%q %v", got.Text, err)
	}
}

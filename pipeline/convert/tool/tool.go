// Package tool calls external programs for formats that Pawl does not read itself: LibreOffice and Tesseract.
// Both are optional; a conversion that needs a missing one fails and names it.
package tool

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

// Set are the tools of this machine.
type Set struct {
	soffice, tesseract, pdftoppm string
	slots                        chan struct{} // one LibreOffice at a time needs some hundred megabytes
}

// Find looks for the tools along the PATH.
func Find() *Set {
	look := func(names ...string) string {
		for _, n := range names {
			if p, err := exec.LookPath(n); err == nil {
				return p
			}
		}
		return ""
	}
	return &Set{look("soffice", "libreoffice"), look("tesseract"), look("pdftoppm"), make(chan struct{}, 2)}
}

// Missing names the tools that are not there, and what they are for.
func (s *Set) Missing() map[string]string {
	missing := map[string]string{}
	if s.soffice == "" {
		missing["LibreOffice (soffice)"] = "doc, ppt, xls, odt, ods and odp"
	}
	if s.tesseract == "" {
		missing["Tesseract (tesseract)"] = "text in images and scanned pages"
	}
	if s.pdftoppm == "" {
		missing["Poppler (pdftoppm)"] = "scanned pages of PDF files"
	}
	return missing
}

// run runs a program in a folder of its own, and ends it, with all that it started, when ctx ends.
func run(ctx context.Context, dir, program string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, program, args...)
	var out, errs bytes.Buffer
	c.Dir, c.Stdout, c.Stderr = dir, &out, &errs
	c.Env = append(os.Environ(), "OMP_THREAD_LIMIT=1", "HOME="+dir)
	c.WaitDelay = 5 * time.Second
	own(c)
	if err := c.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, doc.Fail(doc.KindCorrupt, "%s: %w: %s", filepath.Base(program), err, lastLine(errs.String()))
	}
	return out.Bytes(), nil
}

// folder makes a folder with a document in it, as in, until remove is called.
func folder(d doc.Document, name string) (dir, in string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "pawl-convert-")
	if err != nil {
		return "", "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	in = filepath.Join(dir, name)
	if err := os.WriteFile(in, d.Data, 0o600); err != nil {
		remove()
		return "", "", nil, err
	}
	return dir, in, remove, nil
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// Office returns what makes documents of one type into another, by LibreOffice.
func (s *Set) Office(from, to string) func(context.Context, doc.Document) (doc.Document, error) {
	return func(ctx context.Context, d doc.Document) (doc.Document, error) { return s.office(ctx, d, from, to) }
}

// office gives LibreOffice a profile of its own: two that share one wait for each other.
func (s *Set) office(ctx context.Context, d doc.Document, from, to string) (doc.Document, error) {
	if s.soffice == "" {
		return d, doc.Fail(doc.KindToolMissing, "%s needs LibreOffice (soffice), which is not installed", from)
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return d, context.Cause(ctx)
	}
	d.Trace("Converting Office format", "from", "."+from, "to", "."+to, "engine", "LibreOffice")
	dir, in, remove, err := folder(d, "document."+from)
	if err != nil {
		return d, err
	}
	defer remove()
	_, err = run(ctx, dir, s.soffice, "--headless", "--norestore", "-env:UserInstallation=file://"+dir+"/profile",
		"--convert-to", to, "--outdir", dir, in)
	if err != nil {
		return d, err
	}
	data, err := os.ReadFile(filepath.Join(dir, "document."+to))
	if errors.Is(err, os.ErrNotExist) { // LibreOffice exits with 0 all the same
		return d, doc.Fail(doc.KindCorrupt, "LibreOffice could not read it")
	}
	d.Type, d.Data = to, data
	return d, err
}

// OCR reads the text of a picture.
func (s *Set) OCR(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	if s.tesseract == "" {
		return doc.Markdown{}, doc.Fail(doc.KindToolMissing,
			"text in pictures needs Tesseract (tesseract), which is not installed")
	}
	dir, in, remove, err := folder(d, "picture")
	if err != nil {
		return doc.Markdown{}, err
	}
	defer remove()
	text, err := run(ctx, dir, s.tesseract, in, "stdout")
	return doc.Markdown{Text: string(text)}, err
}

// OCRPages reads the text of the pages of a PDF file that has none, such as a scan.
func (s *Set) OCRPages(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	if s.tesseract == "" || s.pdftoppm == "" {
		return doc.Markdown{}, doc.Fail(doc.KindToolMissing,
			"scanned pages need Tesseract (tesseract) and Poppler (pdftoppm), which are not installed")
	}
	dir, in, remove, err := folder(d, "document.pdf")
	if err != nil {
		return doc.Markdown{}, err
	}
	defer remove()
	if _, err := run(ctx, dir, s.pdftoppm, "-r", "200", "-gray", in, "page"); err != nil {
		return doc.Markdown{}, err
	}
	pages, _ := filepath.Glob(filepath.Join(dir, "page*"))
	var b strings.Builder
	for _, p := range pages {
		text, err := run(ctx, dir, s.tesseract, p, "stdout")
		if err != nil {
			return doc.Markdown{}, err
		}
		b.Write(bytes.TrimSpace(text))
		b.WriteString("\n\n")
	}
	return doc.Markdown{Text: b.String()}, nil
}

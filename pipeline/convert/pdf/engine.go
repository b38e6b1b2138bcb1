package pdf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"sync"

	"github.com/klippa-app/go-pdfium"
	pdfiumerrors "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

const (
	maxInstances = 2         // at a time in a process; others wait
	maxMemory    = 256 << 20 // bytes of an instance, with its file
	maxHandles   = 100_000   // of an instance, which frees them at its end only
)

// engine is PDFium as WebAssembly. It is compiled when the first file is read, which takes seconds; the machine code is
// kept in the user's cache for later processes. It has no access to files or the network.
var engine = sync.OnceValues(func() (pdfium.Pool, error) {
	config := wazero.NewRuntimeConfig().WithMemoryLimitPages(maxMemory >> 16).
		WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling)
	if dir, err := os.UserCacheDir(); err == nil {
		if c, err := wazero.NewCompilationCacheWithDir(filepath.Join(dir, "pawl", "wasm")); err == nil {
			config = config.WithCompilationCache(c)
		}
	}
	return webassembly.Init(webassembly.Config{
		Context:  experimental.WithCompilationWorkers(context.Background(), runtime.GOMAXPROCS(0)),
		MaxTotal: maxInstances, FSConfig: wazero.NewFSConfig(), RuntimeConfig: config,
		Stdout: io.Discard, Stderr: io.Discard,
	})
})

// file is a document in an instance of its own, which is thrown away with whatever a hostile file made of it.
type file struct {
	pdfium.Pdfium
	doc     references.FPDF_DOCUMENT
	pages   int
	handles int // that are in use
	glyphs  glyphs
}

var (
	errNoFile = doc.Fail(doc.KindCorrupt, "it is not a PDF file, or so damaged that it has no pages")
	catalog   = regexp.MustCompile(`(\d{1,9}) 0 obj\s*<<[^>]*/Type\s*/Catalog`)
)

func open(ctx context.Context, data []byte) (*file, error) {
	pool, err := engine()
	if err != nil {
		return nil, fmt.Errorf("start the PDF engine: %w", err)
	}
	instance, err := pool.GetInstanceWithContext(ctx)
	if err != nil {
		return nil, err
	}
	f := &file{Pdfium: instance}
	err = f.open(data)
	if errors.Is(err, errNoFile) && bytes.Contains(data[:min(len(data), 1024)], []byte("%PDF-")) {
		if at := catalog.FindAllSubmatch(data, -1); at != nil { // it may have lost its end, which says where this is
			end := fmt.Sprintf("\ntrailer <</Root %s 0 R>>\nstartxref\n0\n%%%%EOF", at[len(at)-1][1])
			err = f.open(append(data[:len(data):len(data)], end...))
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func (f *file) open(data []byte) error {
	d, err := f.OpenDocument(&requests.OpenDocument{File: &data})
	switch {
	case errors.Is(err, pdfiumerrors.ErrPassword):
		return doc.Fail(doc.KindLocked, "it has a password; save it without one")
	case errors.Is(err, pdfiumerrors.ErrSecurity):
		return doc.Fail(doc.KindLocked, "it is encrypted in a way that cannot be read; save it without encryption")
	case errors.Is(err, pdfiumerrors.ErrFormat):
		return errNoFile
	case err != nil:
		return errGaveUp
	}
	n, err := f.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: d.Document})
	if err != nil {
		return errGaveUp
	}
	f.doc, f.pages, f.glyphs = d.Document, min(n.PageCount, maxPages), glyphsOf(data)
	return nil
}

// Package convert converts documents to Markdown: a single one, or a whole tree in a run that can be resumed. A
// language model can improve the result.
package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/mail"
	"github.com/pawl-dev/pawl/pipeline/convert/ooxml"
	"github.com/pawl-dev/pawl/pipeline/convert/pack"
	"github.com/pawl-dev/pawl/pipeline/convert/pdf"
	"github.com/pawl-dev/pawl/pipeline/convert/plain"
	"github.com/pawl-dev/pawl/pipeline/convert/tool"
)

// Converter converts documents of a type to Markdown.
type Converter interface {
	Convert(ctx context.Context, d doc.Document) (doc.Markdown, error)
}

// Func is a converter that is a function.
type Func func(ctx context.Context, d doc.Document) (doc.Markdown, error)

// Convert calls the function.
func (f Func) Convert(ctx context.Context, d doc.Document) (doc.Markdown, error) { return f(ctx, d) }

// Processor converts a document to a type that a converter understands.
type Processor interface {
	Process(ctx context.Context, d doc.Document) (doc.Document, error)
}

// Engine is a converter by its name.
type Engine struct {
	Name string
	Converter
}

// Format says how documents of a type are converted: the processor makes them into another type, or the primary
// engine converts them, and the fallback those that it finds corrupt.
type Format struct {
	Processor         Processor
	ProcessorName     string
	Primary, Fallback Engine
}

// Registry has the formats by type.
type Registry struct {
	Formats map[string]Format
	// Timeout bounds the time of one document.
	Timeout time.Duration
}

// NewRegistry returns the formats that are built in, and those of the tools that are installed.
func NewRegistry(tools *tool.Set) *Registry {
	native := func(name string, f Func) Format { return Format{Primary: Engine{name, f}} }
	r := &Registry{Timeout: 2 * time.Minute, Formats: map[string]Format{
		"html": native("html", plain.HTML), "docx": native("docx", ooxml.Docx), "pptx": native("pptx", ooxml.Pptx),
		"xlsx": native("xlsx", ooxml.Xlsx), "csv": native("csv", plain.CSV), "tsv": native("csv", plain.CSV),
		"json": native("json", plain.JSON), "xml": native("xml", plain.XML),
		"ipynb": native("notebook", plain.Notebook),
		"epub":  native("epub", pack.Epub), "eml": native("eml", mail.Eml), "msg": native("msg", mail.Msg),
		"zip": native("zip", pack.Zip), "txt": native("text", plain.Text), "md": native("text", plain.Text),
		"rtf": native("rtf", plain.RTF), "pdf": native("pdf", pdf.Convert),
	}}
	for from, to := range map[string]string{"doc": "docx", "odt": "docx", "ppt": "pptx", "odp": "pptx", "xls": "xlsx",
		"ods": "xlsx"} {
		r.Formats[from] = Format{Processor: tools.Office(from, to), ProcessorName: "office"}
	}
	p := r.Formats["pdf"]
	p.Fallback = Engine{"ocr", Func(tools.OCRPages)}
	r.Formats["pdf"] = p
	r.Formats["image"] = Format{Primary: Engine{"ocr", Func(tools.OCR)}}
	return r
}

// Convert converts a document of any type: it finds out which, and calls what converts it.
func (r *Registry) Convert(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, errTimeout)
	defer cancel()
	return r.convert(ctx, d)
}

// errTimeout is not permanent: the machine may have been busy.
var errTimeout = pawl.OfKind("Timeout", errors.New("it was not converted in time"))

func (r *Registry) convert(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	if err := identify(&d); err != nil {
		return doc.Markdown{}, err
	}
	f, ok := r.Formats[d.Type]
	if !ok {
		return doc.Markdown{}, doc.Fail(doc.KindUnsupported, "no converter reads files of type %q", d.Type)
	}
	d.Sub = r.convert
	if d.Trace == nil {
		d.Trace = func(doc.Step) {}
	}
	d.Trace(doc.Step{What: "Conversion plan", Args: []any{"primary", cmp.Or(f.Primary.Name, f.ProcessorName), "fallback",
		f.Fallback.Name}})
	if f.Processor != nil {
		d.Trace(doc.Step{What: "Running pre-processor", Args: []any{"processor", f.ProcessorName}})
		next, err := f.Processor.Process(ctx, d)
		if err != nil {
			return doc.Markdown{}, err
		}
		return r.convert(ctx, next)
	}
	engines := []Engine{f.Primary}
	if f.Fallback.Converter != nil {
		engines = append(engines, f.Fallback)
	}
	var first error
	for i, e := range engines {
		d.Trace(doc.Step{What: "Executing converter", Args: []any{"converter", e.Name, "attempt",
			fmt.Sprintf("%d/%d", i+1, len(engines))}})
		md, err := guarded(ctx, e, d)
		if err == nil {
			return md, nil
		}
		switch kind := pawl.Describe(err).Kind; {
		case first != nil && kind == doc.KindToolMissing && pawl.Describe(first).Kind != doc.KindUnsupported:
			return md, first // what is missing could not have helped with what is wrong
		case first == nil:
			first = err
		default:
			return md, fmt.Errorf("%w; then %s: %w", first, e.Name, err)
		}
		if kind := pawl.Describe(err).Kind; kind != doc.KindCorrupt && kind != doc.KindUnsupported {
			break
		}
	}
	return doc.Markdown{}, first
}

// guarded runs a converter. One that panics fails; one that does not end in time is left behind.
func guarded(ctx context.Context, e Engine, d doc.Document) (doc.Markdown, error) {
	type result struct {
		md  doc.Markdown
		err error
	}
	done := make(chan result, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- result{err: doc.Fail(doc.KindCorrupt, "converter %s gave up: %v", e.Name, p)}
			}
		}()
		md, err := e.Convert(ctx, d)
		done <- result{md, doc.Corrupt(err)}
	}()
	select {
	case r := <-done:
		if r.err != nil && ctx.Err() != nil {
			return r.md, context.Cause(ctx)
		}
		return r.md, r.err
	case <-ctx.Done():
		return doc.Markdown{}, context.Cause(ctx)
	}
}

// extensions says what type files are of by the end of their name.
var extensions = map[string]string{
	"htm": "html", "html": "html", "xhtml": "html", "docx": "docx", "docm": "docx", "dotx": "docx", "pptx": "pptx",
	"pptm": "pptx",
	"ppsx": "pptx", "xlsx": "xlsx", "xlsm": "xlsx", "xltx": "xlsx", "csv": "csv", "tsv": "tsv", "tab": "tsv",
	"json":  "json",
	"jsonl": "json", "ndjson": "json", "geojson": "json", "xml": "xml", "rss": "xml", "atom": "xml", "rdf": "xml",
	"ipynb": "ipynb",
	"epub":  "epub", "eml": "eml", "msg": "msg", "zip": "zip", "txt": "txt", "text": "txt", "log": "txt", "md": "md",
	"markdown": "md",
	"pdf":      "pdf", "rtf": "rtf", "doc": "doc", "dot": "doc", "ppt": "ppt", "pps": "ppt", "xls": "xls", "odt": "odt",
	"ods": "ods",
	"odp": "odp", "png": "image", "jpg": "image", "jpeg": "image", "tif": "image", "tiff": "image", "bmp": "image",
	"gif": "image", "webp": "image",
}

// typeOf is the type of a file by its name; empty if that says nothing.
func typeOf(name string) string {
	i := strings.LastIndexByte(name, '.')
	return extensions[strings.ToLower(name[i+1:])]
}

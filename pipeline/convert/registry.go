// Package convert converts documents to Markdown: a single one, or a whole tree in a run that can be resumed. A
// language model can improve the result.
//
// Patterns of files are matched by doublestar, since the standard library knows no **; what is in hand is bounded by
// the semaphores of golang.org/x/sync.
package convert

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/convert/mail"
	"github.com/pawl-dev/pawl/pipeline/convert/ooxml"
	"github.com/pawl-dev/pawl/pipeline/convert/pack"
	"github.com/pawl-dev/pawl/pipeline/convert/pdf"
	"github.com/pawl-dev/pawl/pipeline/convert/plain"
	"github.com/pawl-dev/pawl/pipeline/convert/tool"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
)

// Func converts a document to Markdown.
type Func func(ctx context.Context, d doc.Document) (doc.Markdown, error)

// Engine is a converter by its name.
type Engine struct {
	Name    string
	Convert Func
}

// Format says how documents of a type are converted: Process, if there is one, makes them into another type; else the
// primary engine converts them, and the fallback those that it finds corrupt, or panics at.
type Format struct {
	Process           func(ctx context.Context, d doc.Document) (doc.Document, error)
	Primary, Fallback Engine
}

// Registry has the formats by type.
type Registry struct {
	Formats map[string]Format
	// Timeout bounds the time of one document.
	Timeout time.Duration
}

// types are what documents may be.
var types = map[string]struct {
	container  string // what is at the outside; empty: text
	extensions string // of the names of files
	engine     Engine
	becomes    string // the type that LibreOffice makes of it, for that one's engine
}{
	"html":  {"", "htm html xhtml", Engine{"html", plain.HTML}, ""},
	"docx":  {"zip", "docx docm dotx", Engine{"docx", ooxml.Docx}, ""},
	"pptx":  {"zip", "pptx pptm ppsx", Engine{"pptx", ooxml.Pptx}, ""},
	"xlsx":  {"zip", "xlsx xlsm xltx", Engine{"xlsx", ooxml.Xlsx}, ""},
	"csv":   {"", "csv", Engine{"csv", plain.CSV}, ""},
	"tsv":   {"", "tsv tab", Engine{"csv", plain.CSV}, ""},
	"json":  {"", "json jsonl ndjson geojson", Engine{"json", plain.JSON}, ""},
	"xml":   {"", "xml rss atom rdf", Engine{"xml", plain.XML}, ""},
	"ipynb": {"", "ipynb", Engine{"notebook", plain.Notebook}, ""},
	"epub":  {"zip", "epub", Engine{"epub", pack.Epub}, ""},
	"eml":   {"", "eml mht mhtml", Engine{"eml", mail.Eml}, ""},
	"mbox":  {"", "mbox", Engine{"mbox", mail.Mbox}, ""},
	"msg":   {"compound", "msg", Engine{"msg", mail.Msg}, ""},
	"zip":   {"zip", "zip", Engine{"zip", pack.Zip}, ""},
	"txt":   {"", "txt text log", Engine{"text", plain.Text}, ""},
	"md":    {"", "md markdown", Engine{"text", plain.Text}, ""},
	"rtf":   {"rtf", "rtf", Engine{"rtf", plain.RTF}, ""},
	"pdf":   {"pdf", "pdf", Engine{"pdf", pdf.Convert}, ""},
	"image": {"image", "png jpg jpeg tif tiff bmp gif webp", Engine{}, ""},
	"doc":   {"compound", "doc dot", Engine{}, "docx"},
	"ppt":   {"compound", "ppt pps", Engine{}, "pptx"},
	"xls":   {"compound", "xls", Engine{}, "xlsx"},
	"odt":   {"zip", "odt", Engine{}, "docx"},
	"odp":   {"zip", "odp", Engine{}, "pptx"},
	"ods":   {"zip", "ods", Engine{}, "xlsx"},
}

// extensions says what type files are of by the end of their name.
var extensions = func() map[string]string {
	m := map[string]string{}
	for name, t := range types {
		for e := range strings.FieldsSeq(t.extensions) {
			m[e] = name
		}
	}
	return m
}()

// typeOf is the type of a file by its name; empty if that says nothing.
func typeOf(name string) string {
	i := strings.LastIndexByte(name, '.')
	return extensions[strings.ToLower(name[i+1:])]
}

// NewRegistry returns the formats that are built in, and those of the tools that are installed.
func NewRegistry(tools *tool.Set) *Registry {
	r := &Registry{Timeout: 2 * time.Minute, Formats: map[string]Format{}}
	for name, t := range types {
		r.Formats[name] = Format{Primary: t.engine}
		if t.becomes != "" {
			r.Formats[name] = Format{Process: tools.Office(name, t.becomes), Primary: Engine{Name: "office"}}
		}
	}
	r.Formats["pdf"] = Format{Primary: r.Formats["pdf"].Primary, Fallback: Engine{"ocr", tools.OCRPages}}
	r.Formats["image"] = Format{Primary: Engine{"ocr", tools.OCR}}
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

// convert converts a document. One that comes out empty, since all of its text is hidden, fails.
func (r *Registry) convert(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	md, err := r.shown(ctx, d)
	if err != nil || d.Hidden || !md.Empty && strings.TrimSpace(md.Text) != "" {
		return md, err
	}
	d.Hidden = true
	if all, err := r.shown(ctx, d); err == nil && !all.Empty && strings.TrimSpace(all.Text) != "" {
		return doc.Markdown{}, doc.Fail(doc.KindHidden, "all of its text is hidden or deleted")
	}
	return md, nil
}

func (r *Registry) shown(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	if err := identify(&d); err != nil {
		return doc.Markdown{}, err
	}
	f, ok := r.Formats[d.Type]
	if !ok {
		return doc.Markdown{}, doc.Fail(doc.KindUnsupported, "no converter reads files of type %q", d.Type)
	}
	d.Sub = r.convert
	if d.Trace == nil {
		d.Trace = func(string, ...any) {}
	}
	guessed := decode(&d)
	d.Trace("Conversion plan", "primary", f.Primary.Name, "fallback", f.Fallback.Name)
	if f.Process != nil {
		d.Trace("Running pre-processor", "processor", f.Primary.Name)
		next, err := f.Process(ctx, d)
		if err != nil {
			return doc.Markdown{}, err
		}
		return r.convert(ctx, next)
	}
	engines := []Engine{f.Primary}
	if f.Fallback.Convert != nil {
		engines = append(engines, f.Fallback)
	}
	var first error
	for i, e := range engines {
		d.Trace("Executing converter", "converter", e.Name, "attempt", fmt.Sprintf("%d/%d", i+1, len(engines)))
		md, err := guarded(ctx, e, d)
		if err == nil {
			md.Text = guessed + md.Text
			return md, nil
		}
		kind := pawl.Describe(err).Kind
		switch {
		case first != nil && kind == doc.KindToolMissing && pawl.Describe(first).Kind != doc.KindUnsupported:
			return md, first // what is missing could not have helped with what is wrong
		case first == nil:
			first = err
		default:
			return md, fmt.Errorf("%w; then %s: %w", first, e.Name, err)
		}
		if kind != doc.KindCorrupt && kind != doc.KindUnsupported && kind != pawl.KindPanic {
			break
		}
	}
	return doc.Markdown{}, first
}

// decode makes UTF-8 of a text whose encoding is stated nowhere, and logs the guess. The front matter says it where
// another encoding is nearly as likely.
func decode(d *doc.Document) (front string) {
	if types[d.Type].container != "" || d.Type == "eml" || d.Type == "mbox" || d.Charset != "" || utf8.Valid(d.Data) {
		return ""
	}
	text, found := charset.Read(d.Data, "")
	if !found.Guessed {
		return ""
	}
	d.Trace("Charset guessed", "charset", found.Name, "sure", found.Sure)
	d.Data, d.Charset = []byte(text), "utf-8"
	if found.Sure || d.Depth > 0 || strings.HasPrefix(text, "---\n") {
		return ""
	}
	return "---\ncharset_guessed: " + found.Name + "\n---\n\n"
}

// guarded runs a converter. One that panics fails, which is said to be our bug; one that does not end in time is left
// behind.
func guarded(ctx context.Context, e Engine, d doc.Document) (doc.Markdown, error) {
	type result struct {
		md  doc.Markdown
		err error
	}
	done := make(chan result, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				d.Trace("Converter panicked", "converter", e.Name, "stack", string(debug.Stack()))
				done <- result{err: doc.Fail(pawl.KindPanic,
					"a bug of Pawl, not of the file: converter %s panicked: %v; please report it", e.Name, p)}
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

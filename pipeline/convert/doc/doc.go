// Package doc has the types that converters of documents share: documents, results and kinds of failure.
package doc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
)

// Document is what is converted.
type Document struct {
	Name string // of the file, with its extension; may be empty
	Type string // what it is: html, docx …; empty: it is sniffed
	Data []byte
	// Charset of a text, if it is stated outside of the text, such as in the header of a mail or by a flag.
	Charset string
	// Depth counts the archives around it.
	Depth int
	// Budget is what may still be unpacked, in bytes, of the archives around it; nil outside of any.
	Budget *int64
	// Image keeps a picture of the document, and says what links to it; nil leaves pictures out.
	Image func(name string, data []byte) string
	// Hidden asks for what the document hides from its readers, marked as such.
	Hidden bool
	// RawNumbers asks for the numbers of a workbook as they are stored, not as their formats show them.
	RawNumbers bool
	// PageMarkers asks for a comment at each beginning of a page or slide.
	PageMarkers bool
	// Sub converts a document that is within this one. The registry sets it.
	Sub func(ctx context.Context, d Document) (Markdown, error)
	// Trace is called for each step that a conversion takes, with arguments as slog has them; it may be nil.
	Trace func(what string, args ...any)
}

// Markdown is the result of a conversion.
type Markdown struct {
	Text  string
	Title string // may be empty
	Empty bool   // it has no text but names of parts
}

// Part converts a document that is within this one, and writes it under a heading, unless that is empty. If it cannot
// be read, the reason is written in its place, and the rest is kept.
func (d *Document) Part(ctx context.Context, w *markdown.Writer, heading string, part Document) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	part.Charset = cmp.Or(part.Charset, d.Charset)
	part.Depth, part.Budget, part.Image = d.Depth+1, d.Budget, d.Image
	part.PageMarkers, part.Hidden, part.RawNumbers = d.PageMarkers, d.Hidden, d.RawNumbers
	md, err := d.Sub(ctx, part)
	bearable := []pawl.Kind{KindUnsupported, KindToolMissing, KindLocked, KindCorrupt, KindHidden, pawl.KindPanic}
	if err != nil && !slices.Contains(bearable, pawl.Describe(err).Kind) {
		return err
	}
	if heading != "" {
		w.Title(2, heading)
	}
	if err != nil {
		w.Marked(markdown.Em, "not converted: "+err.Error())
		w.End()
		return nil
	}
	w.Block(md.Text)
	return nil
}

// Kinds of error. All are permanent: the same bytes fail the same way.
const (
	KindCorrupt     pawl.Kind = "Corrupt"     // it is not what it seems to be, or a part of it is missing
	KindLocked      pawl.Kind = "Locked"      // it has a password
	KindTooLarge    pawl.Kind = "TooLarge"    // it, or its unpacked content, exceeds a limit
	KindHidden      pawl.Kind = "Hidden"      // all of its text is hidden from its readers
	KindNesting     pawl.Kind = "Nesting"     // it is nested too deeply
	KindUnsupported pawl.Kind = "Unsupported" // nothing converts documents of its type
	KindToolMissing pawl.Kind = "ToolMissing" // a program that would convert it is not installed
)

// Fail makes a permanent error of a kind.
func Fail(kind pawl.Kind, format string, args ...any) error {
	return pawl.Permanent(pawl.OfKind(kind, fmt.Errorf(format, args...)))
}

// Corrupt makes a permanent error of a parser's error.
func Corrupt(err error) error {
	if err == nil || pawl.Describe(err).Kind != "" || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return pawl.Permanent(pawl.OfKind(KindCorrupt, err))
}

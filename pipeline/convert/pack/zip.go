// Package pack reads documents that are archives of documents: zip files and books.
package pack

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/markdown"
	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

// maxDepth is how deeply archives may be nested.
const maxDepth = 3

// Zip converts the documents in an archive, each under a heading. Nothing is written to disk, whatever the names in
// it say. What has no text, such as a picture, is named.
func Zip(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	if d.Depth >= maxDepth {
		return doc.Markdown{}, doc.Fail(doc.KindNesting, "archives are nested more than %d deep", maxDepth)
	}
	a, err := doc.OpenZip(&d)
	if err != nil {
		return doc.Markdown{}, err
	}
	var w markdown.Writer
	for _, f := range a.Entries {
		name := clean(doc.Name(f))
		if f.FileInfo().IsDir() || !f.Mode().IsRegular() || strings.HasPrefix(name, "__MACOSX/") {
			continue
		}
		if err := ctx.Err(); err != nil {
			return doc.Markdown{}, err
		}
		data, err := a.Read(f)
		if err != nil {
			return doc.Markdown{}, err
		}
		md, err := d.Sub(ctx, doc.Document{
			Name: name, Data: data, Depth: d.Depth + 1, Budget: d.Budget, Image: d.Image, PageMarkers: d.PageMarkers,
		})
		if err != nil && !passable(err) {
			return doc.Markdown{}, err
		}
		w.Heading(2)
		w.Text(name)
		w.End()
		if err != nil {
			w.Push(markdown.Em)
			w.Text("not converted: " + err.Error())
			w.Pop(markdown.Em)
			w.End()
			continue
		}
		w.Block(md.Text)
	}
	return doc.Markdown{Text: w.String()}, nil
}

// passable errors of a part leave the rest of a document as it is.
func passable(err error) bool {
	return slices.Contains([]pawl.Kind{doc.KindUnsupported, doc.KindToolMissing}, pawl.Describe(err).Kind)
}

// clean makes a path that stays where it is.
func clean(name string) string {
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(name, `\`, "/")), "/")
}

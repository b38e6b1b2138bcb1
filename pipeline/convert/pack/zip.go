// Package pack reads documents that are archives of documents: zip files and books.
package pack

import (
	"context"
	"path"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
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
		name := clean(a.Name(f))
		if f.FileInfo().IsDir() || !f.Mode().IsRegular() || strings.HasPrefix(name, "__MACOSX/") {
			continue
		}
		data, err := a.Read(f)
		if err != nil {
			return doc.Markdown{}, err
		}
		if err := d.Part(ctx, &w, name, doc.Document{Name: name, Data: data}); err != nil {
			return doc.Markdown{}, err
		}
	}
	return doc.Markdown{Text: w.String()}, nil
}

// clean makes a path that stays where it is.
func clean(name string) string {
	return strings.TrimPrefix(path.Clean("/"+strings.ReplaceAll(name, `\`, "/")), "/")
}

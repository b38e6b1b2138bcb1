// Package pdf reads the text of PDF files, and what can be told of its structure.
package pdf

import (
	"context"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
)

// Convert is not there yet.
func Convert(context.Context, doc.Document) (doc.Markdown, error) {
	return doc.Markdown{}, doc.Fail(doc.KindUnsupported, "PDF files are not read yet")
}

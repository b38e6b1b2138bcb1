package mail

import (
	"bytes"
	"context"
	"strconv"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
)

// Mbox converts the messages of a mailbox, one after the other. A line "From " after an empty one begins each.
func Mbox(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	if !bytes.HasPrefix(d.Data, []byte("From ")) {
		return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "it is not a mailbox: it does not begin with \"From \"")
	}
	var w markdown.Writer
	data := bytes.ReplaceAll(append([]byte("\n"), d.Data...), []byte("\r\n"), []byte("\n"))
	n := 0
	for part := range bytes.SplitSeq(data, []byte("\nFrom ")) {
		_, message, _ := bytes.Cut(part, []byte("\n"))
		if len(bytes.TrimSpace(message)) == 0 {
			continue
		}
		n++
		message = bytes.ReplaceAll(message, []byte("\n>From "), []byte("\nFrom "))
		part := doc.Document{Name: "message " + strconv.Itoa(n) + ".eml", Data: message}
		if err := d.Part(ctx, &w, "", part); err != nil {
			return doc.Markdown{}, err
		}
	}
	return doc.Markdown{Text: w.String()}, nil
}

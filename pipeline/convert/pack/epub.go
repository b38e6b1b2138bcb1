package pack

import (
	"context"
	"net/url"
	"path"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

// Epub converts a book: its title and authors, then its chapters in their order.
func Epub(ctx context.Context, d doc.Document) (doc.Markdown, error) {
	a, err := doc.OpenZip(&d)
	if err != nil {
		return doc.Markdown{}, err
	}
	if a.Has("META-INF/encryption.xml") && a.Has("META-INF/rights.xml") {
		return doc.Markdown{}, doc.Fail(doc.KindLocked, "its text is encrypted (DRM)")
	}
	container, err := parse(a, "META-INF/container.xml")
	if err != nil {
		return doc.Markdown{}, err
	}
	opf := container.Find("rootfile").Attr("full-path")
	book, err := parse(a, opf)
	if err != nil {
		return doc.Markdown{}, err
	}
	var w markdown.Writer
	meta := book.Child("metadata")
	title := strings.TrimSpace(meta.Child("title").Content())
	if title != "" {
		w.Title(1, title)
	}
	for m := range meta.Children {
		if name := map[string]string{"creator": "Author", "publisher": "Publisher", "date": "Date",
			"description": "Description"}[m.Name]; name != "" {
			w.Marked(markdown.Strong, name+":")
			w.Text(" ")
			w.HTML(m.Content(), markdown.Options{})
			w.End()
		}
	}
	chapters := map[string]string{}
	var all []string // that have text, whether they are in the order or not
	for i := range book.Child("manifest").Children {
		href, err := url.PathUnescape(i.Attr("href"))
		if err != nil {
			href = i.Attr("href")
		}
		chapters[i.Attr("id")] = path.Join(path.Dir(opf), href)
		if kind := i.Attr("media-type"); strings.HasSuffix(kind, "ml") || strings.HasPrefix(kind, "text/html") {
			all = append(all, chapters[i.Attr("id")])
		}
	}
	var order []string
	for ref := range book.Child("spine").Children {
		order = append(order, chapters[ref.Attr("idref")])
	}
	at := w.Len()
	err = writeChapters(ctx, d, a, &w, order)
	if err == nil && w.Len() == at {
		err = writeChapters(ctx, d, a, &w, all)
	}
	for _, part := range order {
		if err == nil && w.Len() == at && !a.Has(part) {
			err = doc.Fail(doc.KindCorrupt, "it has no %s", part)
		}
	}
	return doc.Markdown{Text: w.String(), Title: title}, err
}

// writeChapters writes parts of a book.
func writeChapters(ctx context.Context, d doc.Document, a *doc.Archive, w *markdown.Writer, parts []string) error {
	for _, part := range parts {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, err := a.Text(part)
		if err != nil {
			return err
		}
		w.HTML(text, markdown.Options{
			Image: func(src string) string { return picture(a, d, path.Join(path.Dir(part), src), src) },
			Link: func(href string) string { // within the book, there is nowhere to lead to
				if u, err := url.Parse(href); err == nil && !u.IsAbs() {
					return ""
				}
				return href
			},
			Notes: strings.TrimSuffix(path.Base(part), path.Ext(part)) + "-",
		})
	}
	return nil
}

// picture keeps a picture of a book, if pictures are kept.
func picture(a *doc.Archive, d doc.Document, part, src string) string {
	if d.Image == nil || strings.HasPrefix(src, "data:") {
		return d.Inline(src)
	}
	data, err := a.Bytes(part)
	if err != nil || data == nil {
		return src
	}
	return d.Image(path.Base(part), data)
}

func parse(a *doc.Archive, part string) (*markup.Node, error) {
	n, err := a.Tree(part)
	if err == nil && n == nil {
		return nil, doc.Fail(doc.KindCorrupt, "it has no %s", part)
	}
	return n, err
}

package site

import (
	"go/doc/comment"
	"strconv"
)

// comment writes a documentation comment. Its headings get ids where the page
// has this one comment only, so that no id occurs twice.
func (b *binder) comment(m *markup, text string, ids bool) {
	if text == "" {
		return
	}
	parsed := b.parser.Parse(text)
	withoutLinks(parsed.Content)
	used := make(map[string]int)
	printer := comment.Printer{
		HeadingLevel: 3,
		DocLinkURL:   b.docLink,
		HeadingID: func(h *comment.Heading) string {
			if !ids {
				return ""
			}
			id := h.DefaultID()
			used[id]++
			if n := used[id]; n > 1 {
				id += "-" + strconv.Itoa(n)
			}
			return id
		},
	}
	m.b.Write(printer.HTML(parsed)) // go/doc/comment escapes
}

// docLink returns the address of what a doc link like [io.Reader] names, or ""
// for what is no page of the site.
func (b *binder) docLink(link *comment.DocLink) string {
	pkg := link.ImportPath
	if pkg == "" {
		pkg = b.volume.path
	}
	switch {
	case link.Name == "":
		return b.catalogue.packageHref(pkg)
	case link.Recv != "":
		return b.catalogue.methodHref(pkg, link.Recv, link.Name)
	}
	return b.catalogue.symbolHref(pkg, link.Name)
}

// withoutLinks replaces links to other sites by their text: no link may lead
// out of the site. Where the text is not the address, the address follows.
func withoutLinks(blocks []comment.Block) {
	for _, block := range blocks {
		switch block := block.(type) {
		case *comment.Paragraph:
			block.Text = plainLinks(block.Text)
		case *comment.Heading:
			block.Text = plainLinks(block.Text)
		case *comment.List:
			for _, item := range block.Items {
				withoutLinks(item.Content)
			}
		}
	}
}

func plainLinks(texts []comment.Text) []comment.Text {
	plain := make([]comment.Text, 0, len(texts))
	for _, t := range texts {
		link, ok := t.(*comment.Link)
		if !ok {
			plain = append(plain, t)
			continue
		}
		plain = append(plain, plainLinks(link.Text)...)
		if !link.Auto {
			plain = append(plain, comment.Plain(" ("+link.URL+")"))
		}
	}
	return plain
}

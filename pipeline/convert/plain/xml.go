package plain

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/pawl-dev/pawl/pipeline/convert/doc"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/markup"
)

// XML shows a document in a block of code. Feeds become headings and texts, and XHTML is read as a page.
func XML(_ context.Context, d doc.Document) (doc.Markdown, error) {
	text := withoutEntities(charset.Decode(d.Data, d.Charset))
	s := markup.NewXML(text)
	root, depth := "", 0
	for done := false; !done; {
		switch s.Next() {
		case markup.Open:
			if root == "" {
				root = s.Name
			}
			if !s.Empty {
				depth++
			}
		case markup.Close:
			if depth--; depth < 0 {
				return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "%w: </%s> ends nothing", markup.ErrSyntax, s.Name)
			}
		case markup.End:
			if s.Err == nil && (depth != 0 || root == "") {
				s.Err = markup.ErrSyntax
			}
			done = true
		}
		if depth > 10_000 {
			return doc.Markdown{}, doc.Fail(doc.KindNesting, "%w", markup.ErrDepth)
		}
	}
	switch {
	case errors.Is(s.Err, markup.ErrEntities):
		return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "%w, which are not read; replace them by their text", s.Err)
	case s.Err != nil:
		return doc.Markdown{}, doc.Fail(doc.KindCorrupt, "%w", s.Err)
	}
	switch root {
	case "rss", "feed", "RDF":
		tree, err := markup.Parse(text)
		if err != nil {
			return doc.Markdown{}, doc.Fail(doc.KindNesting, "%w", err)
		}
		if md, ok := feed(tree); ok {
			return md, nil
		}
	case "html", "svg":
		return HTML(context.Background(), d)
	}
	var w markdown.Writer
	w.Fence("xml", text)
	return doc.Markdown{Text: w.String()}, nil
}

// HTML converts a page. Its title is its first heading, if it has none of its own.
func HTML(_ context.Context, d doc.Document) (doc.Markdown, error) {
	text, title := markdown.FromHTML(charset.Decode(d.Data, d.Charset),
		markdown.Options{Image: d.Inline, Hidden: d.Hidden})
	if title != "" && !strings.HasPrefix(text, "# ") && !strings.Contains(text, "\n# ") {
		var w markdown.Writer
		w.Title(1, title)
		text = strings.TrimRight(w.String()+"\n"+text, "\n") + "\n"
	}
	return doc.Markdown{Text: text, Title: title}, nil
}

// feed writes RSS, Atom or RDF; false if there is nothing of a feed in it.
func feed(root *markup.Node) (doc.Markdown, bool) {
	channel := cmp.Or(root.Child("channel"), root)
	items := channel
	if root.Name == "RDF" {
		items = root
	}
	var w markdown.Writer
	title := first(channel, "title")
	if title == "" {
		return doc.Markdown{}, false
	}
	w.Title(1, title)
	rich(&w, channel.Child("description"))
	rich(&w, channel.Child("subtitle"))
	for c := range items.Children {
		if c.Name == "item" || c.Name == "entry" {
			entry(&w, c)
		}
	}
	return doc.Markdown{Text: w.String(), Title: title}, true
}

func entry(w *markdown.Writer, c *markup.Node) {
	link := first(c, "link")
	for l := range c.Children {
		if rel := l.Attr("rel"); l.Name == "link" && l.Attr("href") != "" && (rel == "" || rel == "alternate") {
			link = l.Attr("href")
		}
	}
	w.Heading(2)
	w.Link(link, "")
	w.Text(cmp.Or(first(c, "title"), link))
	w.EndLink()
	w.End()
	date := first(c, "pubDate", "published", "updated", "date")
	author := cmp.Or(first(c.Child("author"), "name"), first(c, "author", "creator"))
	w.Text(strings.Trim(date+" · "+author, " ·"))
	w.End()
	summary := cmp.Or(c.Child("summary"), c.Child("description"))
	content := cmp.Or(c.Child("encoded"), c.Child("content"))
	if strings.TrimSpace(content.Content()) != strings.TrimSpace(summary.Content()) {
		rich(w, summary)
	}
	rich(w, content)
}

// first is the text of the first child of a name that has some.
func first(n *markup.Node, names ...string) string {
	for _, name := range names {
		if text := strings.TrimSpace(n.Child(name).Content()); text != "" {
			return text
		}
	}
	return ""
}

// rich writes text that is HTML, as most feeds have it.
func rich(w *markdown.Writer, n *markup.Node) {
	if n == nil {
		return
	}
	text := n.Content()
	if n.Attr("type") == "xhtml" {
		text = n.Source()
	}
	w.HTML(text, markdown.Options{})
	w.End()
}

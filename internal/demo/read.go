package demo

import (
	"errors"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
)

// document is what the parser finds in a page.
type document struct {
	title string
	links []string // absolute, on this host, each once
}

var (
	errNotText = errors.New("the page is not valid UTF-8, which its Content-Type says it is")
	errNoTitle = errors.New("the page has no title")
	errNoMain  = errors.New("the page has no main part")
)

// read parses a page. A page without title or main part is refused: better a
// dead letter that somebody looks at than an empty record that nobody does.
func read(r io.Reader, base *url.URL) (document, error) {
	var doc document
	seen := map[string]bool{}
	main, inTitle, text := false, false, true
	z := html.NewTokenizer(r)
	for {
		switch z.Next() {
		case html.ErrorToken:
			if !errors.Is(z.Err(), io.EOF) {
				return doc, z.Err()
			}
			switch {
			case !text:
				return doc, errNotText
			case doc.title == "":
				return doc, errNoTitle
			case !main:
				return doc, errNoMain
			}
			return doc, nil
		case html.TextToken:
			raw := z.Text()
			text = text && utf8.Valid(raw)
			if inTitle {
				doc.title += strings.TrimSpace(string(raw))
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			token := z.Token()
			inTitle = token.Data == "title"
			main = main || token.Data == "main"
			if link := target(token, base); link != "" && !seen[link] {
				seen[link] = true
				doc.links = append(doc.links, link)
			}
		case html.EndTagToken:
			inTitle = false
		}
	}
}

// target returns where a link on this host leads, without its fragment.
func target(token html.Token, base *url.URL) string {
	if token.Data != "a" {
		return ""
	}
	for _, a := range token.Attr {
		if a.Key != "href" {
			continue
		}
		link, err := base.Parse(a.Val)
		if err != nil || link.Host != base.Host || link.Scheme != base.Scheme {
			return ""
		}
		link.Fragment, link.RawFragment = "", ""
		return link.String()
	}
	return ""
}

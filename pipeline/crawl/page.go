package crawl

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/pawl-dev/pawl/pipeline/crawl/weburl"
	"github.com/pawl-dev/pawl/pipeline/internal/markdown/charset"
)

// maxLinks bounds the links that are followed from one page.
const maxLinks = 5000

// maxTitle bounds a title, in bytes.
const maxTitle = 1024

// page is what is read from a body.
type page struct {
	title    string
	charset  string
	links    []*url.URL // canonical, each once
	next     []*url.URL // those that a module follows, which are not among links
	base     *url.URL
	markdown string
	decoded  []byte // the body in UTF-8; nil: it is
}

// readPage finds title, charset and links of a body. The tokenizer takes any nesting.
func readPage(at *url.URL, contentType string, body []byte) page {
	kind, params, _ := mime.ParseMediaType(contentType)
	if kind == "" {
		kind, _, _ = mime.ParseMediaType(http.DetectContentType(body))
	}
	text := strings.HasPrefix(kind, "text/") || strings.HasSuffix(kind, "xml") || strings.HasSuffix(kind, "json")
	if !text {
		return page{base: at}
	}
	decoded, found := charset.Read(body, params["charset"])
	p := page{charset: found.Name, base: at}
	if found.Name != "utf-8" {
		p.decoded = []byte(decoded)
	}
	if kind == "text/html" || kind == "application/xhtml+xml" {
		p.scan(at, strings.NewReader(decoded))
	}
	return p
}

func (p *page) scan(base *url.URL, in io.Reader) {
	seen := map[string]bool{}
	z := html.NewTokenizer(in)
	z.SetMaxBuf(8 << 20)
	inTitle, based, done := false, false, false
	var title strings.Builder
	for {
		switch z.Next() {
		case html.ErrorToken:
			p.title = strings.Join(strings.Fields(title.String()), " ")
			return
		case html.TextToken:
			if inTitle && title.Len() < maxTitle {
				title.Write(z.Text())
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == "title" && inTitle {
				inTitle, done = false, true
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			switch atom.Lookup(name) {
			case atom.Title:
				inTitle = !done
			case atom.Base:
				if href, ok := attribute(z, more, "href"); ok && !based {
					if u, err := base.Parse(strings.TrimSpace(href)); err == nil {
						base, based, p.base = u, true, u
					}
				}
			case atom.Noscript: // nothing is scripted here
				z.NextIsNotRawText()
			case atom.Meta:
				p.refresh(base, attributes(z, more), seen)
			case atom.A, atom.Area:
				if href, ok := attribute(z, more, "href"); ok {
					p.link(base, href, seen)
				}
			case atom.Iframe, atom.Frame:
				if src, ok := attribute(z, more, "src"); ok {
					p.link(base, src, seen)
				}
			}
		}
	}
}

// text is the body in UTF-8, if it is text.
func (p *page) text(body []byte) []byte {
	if p.decoded == nil {
		return body
	}
	return p.decoded
}

// follows adds a link that has the depth of the page.
func (p *page) follows(link *url.URL) {
	if !slices.ContainsFunc(p.next, same(link)) {
		p.next = append(p.next, link)
		p.links = slices.DeleteFunc(p.links, same(link))
	}
}

func same(u *url.URL) func(*url.URL) bool {
	text := u.String()
	return func(other *url.URL) bool { return other.String() == text }
}

func attribute(z *html.Tokenizer, more bool, name string) (value string, ok bool) {
	for more {
		var k, v []byte
		k, v, more = z.TagAttr()
		if string(k) == name {
			return string(v), true
		}
	}
	return "", false
}

func attributes(z *html.Tokenizer, more bool) map[string]string {
	all := map[string]string{}
	for more {
		var k, v []byte
		k, v, more = z.TagAttr()
		all[string(k)] = string(v)
	}
	return all
}

var refreshes = regexp.MustCompile(`(?i)^\s*([0-9]*)[0-9.]*\s*[;,]?\s*url\s*=\s*(?:"([^"]*)|'([^']*)|(.*))`)

// refresh takes the target of a meta element: at once, it is a redirect, of the depth of the page.
func (p *page) refresh(base *url.URL, attributes map[string]string, seen map[string]bool) {
	m := refreshes.FindStringSubmatch(attributes["content"])
	if m == nil || !strings.EqualFold(attributes["http-equiv"], "refresh") {
		return
	}
	ref := strings.TrimSpace(m[2] + m[3] + m[4])
	if u, err := weburl.Parse(base, ref); err == nil && strings.Trim(m[1], "0") == "" {
		p.follows(u)
		seen[u.String()] = true
		return
	}
	p.link(base, ref, seen)
}

func (p *page) link(base *url.URL, ref string, seen map[string]bool) {
	if len(p.links) >= maxLinks || len(ref) > 8<<10 {
		return
	}
	u, err := weburl.Parse(base, ref)
	if err != nil {
		return // no page: mailto:, javascript:, or nothing that can be read
	}
	if s := u.String(); !seen[s] {
		seen[s] = true
		p.links = append(p.links, u)
	}
}

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
	asks     wishes
	words    words
}

// withValue are the directives that have a value after a colon, where others have the name of a crawler before it.
var withValue = regexp.MustCompile(`^\s*(max-(snippet|image-preview|video-preview)|unavailable_after)\s*$`)

// wishes are what a page asks of crawlers, by its meta elements and by X-Robots-Tag.
type wishes struct{ noIndex, noFollow bool }

// add reads a list of directives, of all crawlers or of one product: "noindex", "none", "otherbot: nofollow".
func (w *wishes) add(text, product string) {
	for directive := range strings.SplitSeq(strings.ToLower(text), ",") {
		if agent, rest, ok := strings.Cut(directive, ":"); ok && !withValue.MatchString(agent) {
			if strings.TrimSpace(agent) != strings.ToLower(product) {
				return // it, and what follows, is for another crawler
			}
			directive = rest
		}
		switch strings.TrimSpace(directive) {
		case "noindex":
			w.noIndex = true
		case "nofollow":
			w.noFollow = true
		case "none":
			w.noIndex, w.noFollow = true, true
		}
	}
}

// readPage finds title, charset and links of a body. The tokenizer takes any nesting.
// A link with rel=nofollow is none, unless product is empty: the name by which pages address this crawler.
func readPage(at *url.URL, contentType string, body []byte, product string) page {
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
		p.scan(at, strings.NewReader(decoded), product)
	}
	return p
}

func (p *page) scan(base *url.URL, in io.Reader, product string) {
	seen := map[string]bool{}
	z := html.NewTokenizer(in)
	z.SetMaxBuf(8 << 20)
	inTitle, based, done, code := false, false, false, false
	p.words = wordsOf(base)
	var title strings.Builder
	for {
		switch z.Next() {
		case html.ErrorToken:
			p.title = strings.Join(strings.Fields(title.String()), " ")
			return
		case html.TextToken:
			if code { // of a script or a style
				continue
			}
			text := z.Text()
			p.words.add(text)
			if inTitle && title.Len() < maxTitle {
				title.Write(text)
			}
		case html.EndTagToken:
			code = false
			if name, _ := z.TagName(); string(name) == "title" && inTitle {
				inTitle, done = false, true
			}
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			switch atom.Lookup(name) {
			case atom.Script, atom.Style:
				code = true
			case atom.Img:
				src, _ := attribute(z, more, "src")
				p.words.picture(src)
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
				meta := attributes(z, more)
				p.refresh(base, meta, seen)
				if name := meta["name"]; product != "" &&
					(strings.EqualFold(name, "robots") || strings.EqualFold(name, product)) {
					p.asks.add(meta["content"], product)
				}
			case atom.A, atom.Area:
				link := attributes(z, more)
				href, ok := link["href"]
				follow := product == "" || !slices.ContainsFunc(strings.Fields(link["rel"]), func(rel string) bool {
					return strings.EqualFold(rel, "nofollow")
				})
				if ok && follow {
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

package crawl

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

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
	kind     string // of its content: text/html
	charset  string
	links    []*url.URL // canonical, each once
	next     []*url.URL // those that a module follows, which are not among links
	refresh  *url.URL   // that of next which the page sends its reader to
	base     *url.URL
	markdown string
	decoded  []byte // the body in UTF-8; nil: it is
	asks     wishes
	words    words
	fields   map[string]any   // that the module reads
	items    []map[string]any // whose fields it reads instead
}

// wishes are what a page asks of crawlers, by its meta elements and by X-Robots-Tag.
type wishes struct{ noIndex, noFollow bool }

// withValue are the directives that have a value after a colon, where others have the name of a crawler before it.
var withValue = []string{"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"}

// add reads a list of directives, of all crawlers or of one product: "noindex", "none", "otherbot: nofollow". Those
// after the name of a crawler are for it, up to the next name.
func (w *wishes) add(text, product string) {
	all, mine := strings.Split(strings.ToLower(text), ","), true
	for i, directive := range all {
		name, value := cutTrimmed(directive)
		if value != "" && !slices.Contains(withValue, name) && !strings.Contains(name, " ") {
			mine = name == strings.ToLower(product)
			name, value = cutTrimmed(value)
		}
		switch {
		case !mine:
		case name == "noindex":
			w.noIndex = true
		case name == "nofollow":
			w.noFollow = true
		case name == "none":
			w.noIndex, w.noFollow = true, true
		case name == "unavailable_after":
			if !strings.ContainsAny(value, "0123456789") && i+1 < len(all) { // a day of the week, and a comma
				value = strings.TrimSpace(all[i+1])
			}
			w.noIndex = w.noIndex || past(value)
		}
	}
}

func cutTrimmed(text string) (name, value string) {
	name, value, _ = strings.Cut(text, ":")
	return strings.TrimSpace(name), strings.TrimSpace(value)
}

// past reports whether a date without its day of the week is over, if it can be read.
func past(date string) bool {
	for _, layout := range []string{"2 Jan 2006 15:04:05 MST", "2 Jan 2006 15:04:05 -0700", "2-Jan-06 15:04:05 MST",
		"2 Jan 2006", time.RFC3339, "2006-01-02T15:04:05-0700", time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, strings.ToUpper(date)); err == nil {
			return at.Before(time.Now())
		}
	}
	return false
}

// The parts of a Content-Type, also of one that is damaged.
var (
	mediaTypes = regexp.MustCompile(`^\s*([^\s;,]+/[^\s;,]+)`)
	charsets   = regexp.MustCompile(`(?i)[;,\s]charset\s*=\s*["']?([^\s"';,]+)`)
)

// readPage finds title, charset and links of an answer. The tokenizer takes any nesting.
// A link with rel=nofollow is none, unless product is empty: the name by which pages address this crawler.
func readPage(at *url.URL, header http.Header, body []byte, product string) page {
	p := page{base: at}
	if product != "" {
		for _, line := range header.Values("X-Robots-Tag") {
			p.asks.add(line, product)
		}
	}
	kind := mediaTypes.FindString(header.Get("Content-Type"))
	if kind == "" {
		kind, _, _ = strings.Cut(http.DetectContentType(body), ";")
	}
	kind = strings.ToLower(strings.TrimSpace(kind))
	p.kind = kind
	if !strings.HasPrefix(kind, "text/") && !strings.HasSuffix(kind, "xml") && !strings.HasSuffix(kind, "json") {
		return p
	}
	label := charsets.FindStringSubmatch(header.Get("Content-Type"))
	decoded, found := charset.Read(body, append(label, "", "")[1])
	if p.charset = found.Name; decoded != string(body) {
		p.decoded = []byte(decoded)
	}
	p.readRefresh(at, map[string]string{"http-equiv": "refresh", "content": header.Get("Refresh")}, map[string]bool{})
	if kind == "text/html" || kind == "application/xhtml+xml" {
		p.scan(at, strings.NewReader(decoded), product)
	}
	return p
}

func (p *page) scan(base *url.URL, in io.Reader, product string) {
	seen := map[string]bool{}
	z := html.NewTokenizer(in)
	z.SetMaxBuf(8 << 20)
	inTitle, based, done, code, inLink := false, false, false, false, false
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
			p.words.add(text, inLink)
			if inTitle && title.Len() < maxTitle {
				title.Write(text)
			}
		case html.EndTagToken:
			code = false
			switch name, _ := z.TagName(); {
			case string(name) == "title" && inTitle:
				inTitle, done = false, true
			case string(name) == "a":
				inLink = false
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
				p.readRefresh(base, meta, seen)
				if name := meta["name"]; product != "" &&
					(strings.EqualFold(name, "robots") || strings.EqualFold(name, product)) {
					p.asks.add(meta["content"], product)
				}
			case atom.A, atom.Area:
				inLink = len(name) == 1
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

// readRefresh takes the target of a meta element: at once, it is a redirect, of the depth of the page.
func (p *page) readRefresh(base *url.URL, attributes map[string]string, seen map[string]bool) {
	m := refreshes.FindStringSubmatch(attributes["content"])
	if m == nil || !strings.EqualFold(attributes["http-equiv"], "refresh") {
		return
	}
	ref := strings.TrimSpace(m[2] + m[3] + m[4])
	if u, err := weburl.Parse(base, ref); err == nil && strings.Trim(m[1], "0") == "" {
		p.follows(u)
		p.refresh, seen[u.String()] = u, true
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

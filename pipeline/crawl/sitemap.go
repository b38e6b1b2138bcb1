package crawl

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/weburl"
)

const (
	// sitemapPart is how many links of a sitemap one delivery emits; the rest is for the next one. A sitemap has up to
	// 50,000 (sitemaps.org, protocol).
	sitemapPart = 5000
	// maxSitemap bounds a sitemap that is unpacked, and sitemapNesting how deep indexes lead to indexes.
	maxSitemap     = 50 << 20
	sitemapNesting = 3
	// sitemapDepth is the depth of pages that a sitemap names, and sitemapTries how often one is asked for.
	sitemapDepth = 1
	sitemapTries = 3
)

// sitemaps emits requests for the sitemaps that the robots.txt of a seed names. They are no pages: the account does not
// count them.
func (c *crawler) sitemaps(d *pawl.Delivery, r *request, rules *robots) {
	if r.Depth > 0 || c.options.Depth == 0 {
		return
	}
	for _, ref := range rules.Sitemaps {
		if u, err := weburl.Parse(nil, ref); err == nil && c.scope.has(u) {
			d.Emit(c.visitSitemap(u, 1, 0))
		}
	}
}

// visitSitemap is the message of a request for a sitemap, or for the rest of one.
func (c *crawler) visitSitemap(u *url.URL, nesting, skip int) pawl.Message {
	m := c.visit(u, request{Depth: sitemapDepth, Sitemap: nesting, Skip: skip})
	m.Unique.Key = fmt.Sprintf("%s/sitemap/%d", m.Unique.Key, skip)
	return m
}

// readSitemap emits the links of a sitemap. One that cannot be read is no failure of the crawl: its pages may be found
// by links, too.
func (c *crawler) readSitemap(ctx context.Context, d *pawl.Delivery, u *url.URL, r *request) error {
	a, at, err := c.reach(ctx, u)
	o := outcome{Kind: kindMoved}
	if f := pawl.Describe(err); err != nil && (f.Class == pawl.ClassPermanent || d.Attempt >= sitemapTries &&
		f.Class != pawl.ClassThrottled) {
		return c.done(d, o)
	}
	if err != nil {
		return err
	}
	body, err := unpack(a.body)
	if err != nil {
		return c.done(d, o)
	}
	links := sitemapLinks(body)
	for _, l := range links[min(r.Skip, len(links)):min(r.Skip+sitemapPart, len(links))] {
		link, err := weburl.Parse(at, l.ref)
		switch {
		case err != nil:
		case !l.index:
			if c.follow(d, &o, link, request{Depth: sitemapDepth}) {
				o.Links = append(o.Links, keyOf(link))
			}
		case r.Sitemap < sitemapNesting && c.scope.has(link):
			d.Emit(c.visitSitemap(link, r.Sitemap+1, 0))
		}
	}
	if next := r.Skip + sitemapPart; next < len(links) {
		d.Emit(c.visitSitemap(u, r.Sitemap, next))
	}
	return c.done(d, o)
}

// unpack unpacks a body that is a gzip file, within a bound.
func unpack(body []byte) ([]byte, error) {
	if !bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		return body, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(z, maxSitemap+1))
	if len(text) > maxSitemap {
		return nil, errors.New("the sitemap is too large")
	}
	return text, err
}

type sitemapLink struct {
	ref   string
	index bool // it leads to another sitemap
}

// sitemapLinks are the links of a sitemap or of an index, up to where it can be read: XML, or a line for each.
func sitemapLinks(text []byte) []sitemapLink {
	if !bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\uFEFF")), " \t\r\n"), []byte("<")) {
		var links []sitemapLink
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" {
				links = append(links, sitemapLink{ref: line})
			}
		}
		return links
	}
	var links []sitemapLink
	z := xml.NewDecoder(bytes.NewReader(text))
	z.Strict = false
	z.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // URLs are ASCII
	var path []string
	var loc strings.Builder
	for {
		t, err := z.Token()
		if err != nil {
			return links
		}
		switch t := t.(type) {
		case xml.StartElement:
			if path = append(path, t.Name.Local); len(path) > 32 {
				return links
			}
			loc.Reset()
		case xml.CharData:
			if len(path) > 0 && path[len(path)-1] == "loc" && loc.Len() < 8<<10 {
				loc.Write(t)
			}
		case xml.EndElement:
			if n := len(path); n > 1 && path[n-1] == "loc" && (path[n-2] == "url" || path[n-2] == "sitemap") {
				links = append(links, sitemapLink{strings.TrimSpace(loc.String()), path[n-2] == "sitemap"})
			}
			path = path[:max(0, len(path)-1)]
		}
	}
}

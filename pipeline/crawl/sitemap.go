package crawl

import (
	"context"
	"fmt"
	"net/url"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline/crawl/sitemap"
	"github.com/pawl-dev/pawl/pipeline/crawl/weburl"
)

const (
	// sitemapPart is how many links of a sitemap one delivery emits; the rest is for the next one. A sitemap has up to
	// 50,000 (sitemaps.org, protocol).
	sitemapPart = 5000
	// sitemapNesting is how deep indexes lead to indexes.
	sitemapNesting = 3
	// sitemapDepth is the depth of pages that a sitemap names, and sitemapTries how often one is asked for.
	sitemapDepth = 1
	sitemapTries = 3
)

// sitemaps emits requests for the sitemaps that the robots.txt of a seed names. They are not pages, and not counted in
// the summary.
func (c *crawler) sitemaps(d *pawl.Delivery, r *request, rules *robots) {
	seed, err := url.Parse(r.URL)
	if r.Depth > 0 || c.options.Depth == 0 || err != nil {
		return
	}
	for _, ref := range rules.Sitemaps {
		if u, err := weburl.Parse(seed, ref); err == nil && c.scope.has(u) {
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
	links, err := sitemap.Read(a.body)
	if err != nil {
		return c.done(d, o)
	}
	for _, l := range links[min(r.Skip, len(links)):min(r.Skip+sitemapPart, len(links))] {
		link, err := weburl.Parse(at, l.URL)
		switch {
		case err != nil:
		case !l.Index:
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

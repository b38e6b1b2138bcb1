package sitemap

import (
	"bytes"
	"compress/gzip"
	"slices"
	"testing"
)

func TestRead(t *testing.T) {
	const site = `<?xml version="1.0"?><urlset><url><loc> http://a/1 </loc><image><loc>http://a/x.png</loc></image></url>` +
		`<url><loc>http://a/2</loc></url>`
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(site))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	var twice bytes.Buffer
	z = gzip.NewWriter(&twice)
	_, _ = z.Write(packed.Bytes())
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	pages := []Link{{URL: "http://a/1"}, {URL: "http://a/2"}}
	for text, want := range map[string][]Link{
		site:            pages, // its end is missing
		packed.String(): pages,
		twice.String():  pages,
		"<urlset><url><loc><![CDATA[ http://a/1 ]]></loc></url><url><loc>\nhttp://a/2\n</loc></url></urlset>": pages,
		"<sitemapindex><sitemap><loc>http://a/s.xml</loc></sitemap></sitemapindex>": {{URL: "http://a/s.xml",
			Index: true}},
		"\uFEFFhttp://a/1\r\n\nhttp://a/2\n": pages,
		"":                                   nil,
	} {
		if got, err := Read([]byte(text)); err != nil || !slices.Equal(got, want) {
			t.Errorf("%.40q: %v, %v; want %v", text, got, err, want)
		}
	}
	if links, err := Read([]byte("\x1f\x8bnot gzip")); err == nil {
		t.Errorf("%v from what is no gzip", links)
	}
}

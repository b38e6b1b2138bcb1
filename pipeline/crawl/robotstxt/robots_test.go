package robotstxt

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/pipeline/crawl/weburl"
)

func TestRobots(t *testing.T) {
	const text = `# comment
User-agent: other
Disallow: /

user-agent: *
User-Agent: Unknown
Disallow: /private
Allow: /private/open
Disallow: /*.pdf$
Disallow: /search*q=
Disallow: /%7Euser
Disallow: /*?session=
Disallow: /list?q=%c3%a9
Disallow: /what%3F
Crawl-delay: 2.5

User-agent: pawl
Disallow: /for-pawl
Crawl-delay: 1000
Sitemap: http://example.com/sitemap.xml

User-agent: pawl
Disallow: /also
User-agent: free
`
	for _, c := range []struct {
		agent, path string
		want        bool
	}{
		{"x", "/", true}, {"x", "/private", false}, {"x", "/privateer", false}, {"x", "/private/open/a", true},
		{"x", "/a.pdf", false},
		{"x", "/a.pdf?x", true}, {"x", "/search?lang=en&q=a", false}, {"x", "/search?lang=en", true},
		{"x", "/a?session=1", false}, {"x", "/a?b&session=1", true}, {"x", "/a%3Fsession=1", true},
		{"x", "/list?q=é", false}, {"x", "/list?q=%C3%A9x", false}, {"x", "/what?", true}, {"x", "/what%3fx", false},
		{"x", "/~user", false}, {"x", "/for-pawl", true},
		{"pawl", "/private", true}, {"pawl", "/for-pawl/a", false}, {"pawl", "/also", false}, {"Pawl", "/also", false},
		{"other", "/a", false}, {"free", "/private", true},
	} {
		u, err := weburl.Parse(nil, "http://example.com"+c.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := Parse([]byte(text), c.agent).Allows(u); got != c.want {
			t.Errorf("%s asks for %s: %v, want %v", c.agent, c.path, got, c.want)
		}
	}
	if r := Parse([]byte(text), "x"); r.Delay != 2500*time.Millisecond || len(r.Sitemaps) != 1 {
		t.Errorf("delay %v, sitemaps %v", r.Delay, r.Sitemaps)
	}
	u, err := weburl.Parse(nil, "http://example.com/a/b")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"Crawl-delay: 1\nUser-agent: *\nDisallow: /*.aspx\nDisallow: /*%\n": true,
		"User-agent: Pawl/2.0\nDisallow: /a\n":                              false,
		"User-agent: Pawl 2 (beta)\nDisallow: /a\n":                         false,
		"User-agent: Pawls\nDisallow: /a\n":                                 true,
	} {
		if got := Parse([]byte(text), "Pawl").Allows(u); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	pattern := "/" + strings.Repeat("*a", 200) + "$"
	if match(pattern, "/"+strings.Repeat("a", 100_000)+"b") {
		t.Error("it matches")
	}
	if got := Product("Pawl/1.0 (+https://example.com)"); got != "Pawl" {
		t.Errorf("product token %q", got)
	}
}

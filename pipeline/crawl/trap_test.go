package crawl

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// A site whose links are relative by mistake, and which answers every path with one page, ends after a few requests;
// so does one whose page names its own path.
func TestCrawlOfOnePageUnderEveryPath(t *testing.T) {
	const menu = `<a href="a/">a</a><a href="b/">b</a><a href="c/">c</a>`
	few := map[string]int{"menu": 400, "query": 100}
	for name, page := range map[string]http.HandlerFunc{
		"one body": text("text/html", "<title>T</title>"+menu),
		"menu": func(w http.ResponseWriter, r *http.Request) { // with the path, a time and a visitor, in any order
			text("text/html", fmt.Sprintf("<title>T</title><script>var id='%s'</script>%s<p>Visit %d of %s",
				rand.Text(), menu, time.Now().UnixNano(), strings.ReplaceAll(r.URL.Path, "/", " › ")))(w, r)
		},
		"query": func(w http.ResponseWriter, r *http.Request) {
			text("text/html", fmt.Sprintf(`<a href="?%[1]s&a=1">a</a><a href="?%[1]s&b=2">b</a>`, r.URL.RawQuery))(w, r)
		},
		"own path": func(w http.ResponseWriter, r *http.Request) {
			text("text/html", fmt.Sprintf("<title>You are at %s</title>%s", r.URL.Path, menu))(w, r)
		},
	} {
		w := newWeb(t, nil)
		w.Config.Handler = page
		r := &rig{T: t, dir: t.TempDir()}
		sum, got, err := r.run(t.Context(), w.URL)
		if err != nil || len(got) > max(40, few[name]) || len(got) < 4 || sum.Excluded == 0 || len(sum.LeftOut) == 0 ||
			sum.Discovered != sum.Stored+sum.Duplicate+sum.Excluded+sum.Dead {
			t.Errorf("%s: %v, %d pages: %+v", name, err, len(got), sum)
		}
	}
}

// A menu that repeats on every page hides no page that says something of its own, however deep, nor a picture.
func TestCrawlFindsWhatIsNewUnderOneMenu(t *testing.T) {
	const depth = 8
	w := newWeb(t, nil)
	w.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := strings.Count(r.URL.Path, "/")
		body := strings.Repeat("<p>The menu of the site", 100)
		if n%2 == 0 {
			body += fmt.Sprintf("<h1>A chapter about %c</h1>", 'a'+rune(n))
		} else {
			body += fmt.Sprintf("<img src=/p%d.png>", n)
		}
		if n < depth {
			body += fmt.Sprintf("<a href=%c/>on</a>", 'a'+rune(n))
		}
		text("text/html", body)(w, r)
	})
	r := &rig{T: t, dir: t.TempDir()}
	if sum, got, err := r.run(t.Context(), w.URL); err != nil || len(got) != depth || sum.Excluded != 0 {
		t.Errorf("%v, %d pages: %+v", err, len(got), sum)
	}
}

// Pages without words of their own are all found, where they are many and where they are deep.
func TestCrawlFindsPagesWithoutWords(t *testing.T) {
	const pages = 700
	w := newWeb(t, nil)
	w.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var n int
		_, _ = fmt.Sscanf(r.URL.Path, "/p%d", &n)
		body, depth := "", strings.Count(r.URL.Path, "/0")
		for k := range 3 {
			body += fmt.Sprintf(`<a href="/p%d">x</a>`, (n*3+k+depth)%pages)
		}
		if r.URL.Path == "/" || depth > 0 && depth < 4 {
			body += fmt.Sprintf("<a href=%s/0/>x</a>", strings.TrimSuffix(r.URL.Path, "/"))
		}
		text("text/html", body)(w, r)
	})
	r := &rig{T: t, dir: t.TempDir()}
	if sum, got, err := r.run(t.Context(), w.URL); err != nil || len(got) != 1+pages+4 || sum.Excluded != 0 {
		t.Errorf("%v, %d pages: %+v", err, len(got), sum)
	}
}

// A calendar ends years ahead, and where nothing is in it; a sequence of pages ends much later.
func TestTraps(t *testing.T) {
	for _, c := range []struct {
		url          string
		alike, empty int
		want         string
	}{
		{"http://a/9999/01/", 1, 0, "a calendar years ahead"}, {"http://a/9999/01/", 0, 0, ""},
		{"http://a/c?y=1999&m=2", 1, maxEmpty + 1, "a calendar without anything new"},
		{"http://a/c?y=1999&m=2", 1, maxEmpty, ""}, {"http://a/p/7", 1, maxEmpty + 1, ""},
		{"http://a/p/7", maxAlike + 1, maxAlike + 1, whyAlike}, {"http://a/p/7", maxAlike + 1, 9, ""},
		{"http://a/p/7", maxNewAlike + 1, 0, whyAlike},
		{"http://a/x/y/x/z/y/z", 0, 0, "the path repeats itself"},
		{"http://a/x/y/x/z/y/v", 0, 0, ""}, {"http://a/1/2/1/2/1/2", 0, 0, ""},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := trap(u, c.alike, c.empty); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// Links with ids that are made up anew lead to pages that were there.
func TestCrawlOfPagesInNewGuises(t *testing.T) {
	prose := strings.Repeat("the page says some words ", 5)
	w := newWeb(t, nil)
	w.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text("text/html", prose+fmt.Sprintf(`<a href="/%[1]s/list">a</a><a href="/p?s=%[1]s">b</a>`, rand.Text()))(w, r)
	})
	r := &rig{T: t, dir: t.TempDir()}
	sum, got, err := r.run(t.Context(), w.URL)
	if err != nil || len(got) < 4 || len(got) > 40 || sum.LeftOut[whyText].Count == 0 {
		t.Errorf("%v, %d pages: %+v", err, len(got), sum)
	}
}

// Once a host has had many pages in a row that say nothing new, requests that such pages led to are not made.
func TestCrawlLeavesADullHost(t *testing.T) {
	c := newCrawler("crawl", "run", Defaults(), nil)
	u, err := url.Parse("http://a.example/a/b")
	if err != nil {
		t.Fatal(err)
	}
	dull := func(n int) {
		for range n {
			c.news.count(u, &outcome{Dull: true})
		}
	}
	dull(maxDull + 1)
	m := c.visit(u, request{Depth: 1, Stale: fewStale + 1})
	d := &pawl.Delivery{Message: m}
	if err := c.Handle(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if all := d.Emitted(); len(all) != 1 || !strings.Contains(string(all[0].Body), whyDull) {
		t.Errorf("%v", all)
	}
	if c.tires(u, fewStale) {
		t.Error("it tires too early")
	}
	if dull(maxDull); !c.tires(u, fewStale) || c.tires(u, 1) {
		t.Error("twice as many pages")
	}
}

// The account says why each link was left out, and names one.
func TestAccountOfWhatIsLeftOut(t *testing.T) {
	w := newWeb(t, map[string]http.HandlerFunc{
		"/robots.txt": text("text/plain", "User-agent: *\nDisallow: /closed"),
		"/": text("text/html", `<a href="https://other.example/">o</a><a href="/closed">c</a><a href="/x/x/x">x</a>`+
			`<a href="/y/z/y/z/y/z/">y</a><a href="/2026/11/11/11">date</a>`),
		"/2026/11/11/11": text("text/html", "<title>date</title>"),
	})
	r := &rig{T: t, dir: t.TempDir()}
	sum, got, err := r.run(t.Context(), w.URL)
	if err != nil || len(got) != 2 || sum.LeftOut["the path repeats itself"].URL != w.URL+"/x/x/x" ||
		sum.LeftOut.String() != " (2 the path repeats itself, 1 out of scope, 1 robots.txt disallows it)" {
		t.Errorf("%v %d %+v", err, len(got), sum)
	}
}

// Meta elements that refresh a page lead on, and so do links for those who run no scripts.
func TestCrawlFollowsRefreshAndNoscript(t *testing.T) {
	w := newWeb(t, map[string]http.HandlerFunc{
		"/": text("text/html", `<base href="/dir/sub/"><meta content="0; URL='../quoted'" http-equiv=Refresh>`+
			`<noscript><meta http-equiv="refresh" content="5;url=later"><a href="/ns">x</a></noscript>`+
			`<meta name=description content="0; url=/no">`),
		"/dir/quoted":    text("text/html", "<title>quoted</title>"),
		"/dir/sub/later": text("text/html", "<title>later</title>"),
		"/ns":            text("text/html", "<title>ns</title>"),
	})
	r := &rig{T: t, dir: t.TempDir()}
	_, got, err := r.run(t.Context(), w.URL)
	if err != nil || len(got) != 4 || got["/dir/quoted"].Depth != 0 || got["/dir/sub/later"].Depth != 1 ||
		got["/ns"].Title != "ns" {
		t.Errorf("%v %+v", err, got)
	}
}

package crawl

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
)

// TestPagesSayWhatCrawlersMayDo has pages that ask crawlers not to keep them, or not to follow their links.
func TestPagesSayWhatCrawlersMayDo(t *testing.T) {
	header := func(values ...string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			rw.Header()["X-Robots-Tag"] = values
			text("text/html", links(r.URL.Path+"/link"))(rw, r)
		}
	}
	meta := func(name, content string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			page := fmt.Sprintf("<meta name=%q content=%q>%s", name, content, links(r.URL.Path+"/link"))
			text("text/html", page)(rw, r)
		}
	}
	pages := map[string]http.HandlerFunc{
		"/": text("text/html", `<a rel="external NoFollow" href="/rel">x</a>`+
			links("/meta", "/mine", "/other", "/none", "/tag", "/valued", "/foreign", "/noindex")),
		"/rel": text("text/html", "rel"), "/meta": meta("ROBOTS", "index, NOFOLLOW"),
		"/mine": meta("pawl", "nofollow"), "/other": meta("googlebot", "nofollow"), "/none": meta("robots", "none"),
		"/tag": header("nofollow"), "/valued": header("max-snippet:-1, nofollow"),
		"/foreign": header("otherbot: nofollow, noindex", "pawl: index"), "/noindex": header("otherbot: none", "noindex"),
	}
	for _, page := range []string{"/meta", "/mine", "/other", "/none", "/tag", "/valued", "/foreign", "/noindex"} {
		pages[page+"/link"] = text("text/html", page)
	}
	w := newWeb(t, pages)
	for ignore, want := range map[bool][]string{
		false: {"/", "/foreign", "/foreign/link", "/meta", "/mine", "/noindex/link", "/other", "/other/link", "/tag", "/valued"},
		true: {"/", "/foreign", "/foreign/link", "/meta", "/meta/link", "/mine", "/mine/link", "/noindex",
			"/noindex/link", "/none", "/none/link", "/other", "/other/link", "/rel", "/tag", "/tag/link", "/valued",
			"/valued/link"},
	} {
		r := &rig{T: t, dir: t.TempDir(), changed: map[string]any{"ignore-robots": ignore}}
		sum, got, err := r.run(t.Context(), w.URL)
		if paths := slices.Sorted(maps.Keys(got)); err != nil || !slices.Equal(paths, want) {
			t.Errorf("ignore_robots %v: %v, pages\n%v, want\n%v", ignore, err, paths, want)
		}
		if sum.Discovered != sum.Stored+sum.Duplicate+sum.Excluded+sum.Dead {
			t.Errorf("ignore_robots %v: the account: %+v", ignore, sum)
		}
	}
}

// TestWishes: directives after the name of a crawler are for it, and a date that is over means noindex.
func TestWishes(t *testing.T) {
	for text, want := range map[string]wishes{
		"otherbot: noindex, pawl: nofollow":                              {noFollow: true},
		"otherbot: noindex, nofollow":                                    {},
		"Pawl: none, otherbot: all":                                      {true, true},
		"max-image-preview:large, noindex":                               {noIndex: true},
		"unavailable_after: 25 Jun 2010 15:00:00 PST":                    {noIndex: true},
		"unavailable_after: Friday, 25-Jun-10 15:00:00 UTC, nofollow":    {true, true},
		"unavailable_after: Fri, 25 Jun 2010 15:00:00 +0200":             {noIndex: true},
		"pawl: unavailable_after: 2010-06-25":                            {noIndex: true},
		"otherbot: unavailable_after: 2010-06-25":                        {},
		"unavailable_after: 2999-06-25T15:00:00Z, unavailable_after: xx": {},
	} {
		var got wishes
		if got.add(text, "Pawl"); got != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// TestReadPageOfDamagedHeaders: a Content-Type counts, however it is written, and a header can refresh a page.
func TestReadPageOfDamagedHeaders(t *testing.T) {
	at := mustParse(t, "http://a.example/")
	for header, want := range map[string]string{
		"text/html; charset=iso-8859-2; charset=utf-8": "\u0105", `TEXT/HTML;charset="iso-8859-2`: "\u0105",
		"text/html,text/html;charset=iso-8859-2": "\u0105", "": "\u00b1", "text/html; charset=nonsense": "\u00b1",
	} {
		headers := http.Header{"Content-Type": {header}, "Refresh": {"0; url=/on"}}
		p := readPage(at, headers, []byte("<title>\xb1</title>"), "")
		if p.kind != "text/html" || p.title != want || p.refresh == nil || p.refresh.Path != "/on" {
			t.Errorf("%s: %+v", header, p)
		}
	}
	p := readPage(at, http.Header{"Content-Type": {"application/json"}}, []byte("\xef\xbb\xbf{}"), "")
	if string(p.text(nil)) != "{}" {
		t.Errorf("a byte order mark: %q", p.text(nil))
	}
}

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

package crawl

import (
	"fmt"
	"net/http"
	"testing"
)

// A site whose links are relative by mistake, and which answers every path with one page, ends after a few requests;
// so does one whose page names its own path.
func TestCrawlOfOnePageUnderEveryPath(t *testing.T) {
	const menu = `<a href="a/">a</a><a href="b/">b</a><a href="c/">c</a>`
	for name, page := range map[string]http.HandlerFunc{
		"one body": text("text/html", "<title>T</title>"+menu),
		"own path": func(w http.ResponseWriter, r *http.Request) {
			text("text/html", fmt.Sprintf("<title>You are at %s</title>%s", r.URL.Path, menu))(w, r)
		},
	} {
		w := newWeb(t, nil)
		w.Config.Handler = page
		r := &rig{T: t, dir: t.TempDir()}
		sum, got, err := r.run(t.Context(), w.URL)
		if err != nil || len(got) > 40 || len(got) < 4 || sum.Excluded == 0 ||
			sum.Discovered != sum.Stored+sum.Duplicate+sum.Excluded+sum.Dead {
			t.Errorf("%s: %v, %d pages: %+v", name, err, len(got), sum)
		}
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

package crawl

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/pipeline/crawl/weburl"
)

// TestDepthIsTheShortestWay: the shortest way leads over a page that takes long and the redirect of another,
// so that all is found by longer ways first. With a bound, what seemed too deep is found all the same.
func TestDepthIsTheShortestWay(t *testing.T) {
	slow := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(400 * time.Millisecond)
			h(w, r)
		}
	}
	w := newWeb(t, map[string]http.HandlerFunc{
		"/": text("text/html", links("/slow", "/1", "/moved")), "/slow": slow(text("text/html", links("/3"))),
		"/1": text("text/html", links("/2")), "/2": text("text/html", links("/3", "/target")),
		"/3": text("text/html", links("/4")),
		"/4": text("text/html", links("/5")), "/5": text("text/html", "5"),
		"/moved": slow(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/target", http.StatusFound)
		}),
		"/target": text("text/html", "target"),
	})
	for _, bound := range []int64{-1, 3} {
		r := &rig{T: t, dir: t.TempDir(), changed: map[string]any{"per-host": int64(8)}}
		want := map[string]int64{"/": 0, "/slow": 1, "/1": 1, "/2": 2, "/3": 2, "/4": 3, "/target": 1, "/5": 4}
		if bound >= 0 {
			r.changed["depth"] = bound
			delete(want, "/5")
		}
		sum, got, err := r.run(t.Context(), w.URL)
		if err != nil || len(got) != len(want) {
			t.Errorf("bound %d: %v, %+v, %d pages, want %d", bound, err, sum, len(got), len(want))
		}
		for at, depth := range want {
			if got[at].Depth != depth {
				t.Errorf("bound %d: %s has depth %d, want %d", bound, at, got[at].Depth, depth)
			}
		}
		if sum.Discovered != sum.Stored+sum.Duplicate+sum.Excluded+sum.Dead {
			t.Errorf("the account: %+v", sum)
		}
	}
}

// TestSitesWithoutEnd: every visit makes up new ids, the calendar goes on, and every page has a link below itself.
func TestSitesWithoutEnd(t *testing.T) {
	session := func(w http.ResponseWriter, r *http.Request) {
		text("text/html", links(fmt.Sprintf("/s/a?sid=%016x7", rand.Uint64()),
			fmt.Sprintf("/s/b;jsessionid=%016X7?x=1", rand.Uint64()), "/cal/2026/11", "down/"))(w, r)
	}
	site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var year, month int
		if n, _ := fmt.Sscanf(r.URL.Path, "/cal/%d/%d", &year, &month); n == 2 {
			year, month = year+month/12, month%12+1
			text("text/html", links(fmt.Sprintf("/cal/%d/%02d", year, month)))(w, r)
			return
		}
		session(w, r)
	})
	pages := map[string]http.HandlerFunc{"/": site, "/s/a": site, "/s/b;jsessionid": site}
	w := newWeb(t, pages)
	w.Config.Handler = site
	r := &rig{T: t, dir: t.TempDir()}
	_, got, err := r.run(t.Context(), w.URL)
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]int{}
	for at := range got {
		first, _, _ := strings.Cut(strings.TrimPrefix(at, "/"), "/")
		of[first]++
	}
	if of["cal"] < maxEmpty || of["cal"] > maxEmpty+2 || of["s"] > 2*maxSegments+2 || of["down"] > maxSegments {
		t.Errorf("%v", of)
	}
}

func TestShapesAndSessions(t *testing.T) {
	for _, c := range []struct {
		text string
		want string
	}{
		{"http://a/x?sid=0123456789abcdef&b=1", "http://a/x?b=1"}, {"http://a/x?sid=7", "http://a/x?sid=7"},
		{"http://a/x;jsessionid=0123456789ABCDEF?b=1", "http://a/x?b=1"},
		{"http://a/x?b=0123456789abcdef", "http://a/x?b=0123456789abcdef"},
		{"http://a/x;v=1", "http://a/x;v=1"}, {"http://a/x?PHPSESSID=0123456789abcdef", "http://a/x"},
		{"http://a/x?jsessionid=AAA", "http://a/x"}, {"http://a/x?sid=9f8e7d6c", "http://a/x"},
		{"http://a/x?sid=20261123", "http://a/x?sid=20261123"}, {"http://a/x?session=day2", "http://a/x?session=day2"},
	} {
		u, err := weburl.Parse(nil, c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := withoutSession(u); got != c.want {
			t.Errorf("%s is %s, want %s", c.text, got, c.want)
		}
	}
}

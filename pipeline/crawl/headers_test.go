package crawl

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// TestSecretHeadersStayWithTheSeeds: redirects of robots.txt, sitemaps and links to others do not take the credentials
// along that the user gave for a site.
func TestSecretHeadersStayWithTheSeeds(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]int{}
	other := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		seen[r.URL.Path]++
		for _, name := range []string{"Authorization", "Cookie", "X-Api-Key"} {
			if got := r.Header.Get(name); got != "" {
				t.Errorf("%s of another site got %s: %s", r.URL.Path, name, got)
			}
		}
		if got := r.Header.Get("Accept-Language"); got != "de" {
			t.Errorf("%s got the language %q", r.URL.Path, got)
		}
		text("text/plain", "")(rw, r)
	}))
	t.Cleanup(other.Close)
	away := func(path string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, other.URL+path, http.StatusFound) }
	}
	var w *web
	w = newWeb(t, map[string]http.HandlerFunc{
		"/robots.txt": func(rw http.ResponseWriter, r *http.Request) {
			text("text/plain", "Sitemap: "+w.URL+"/sitemap.xml")(rw, r)
		},
		"/sitemap.xml": away("/sitemap.xml"),
		"/": func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer x" || r.Header.Get("X-Api-Key") != "k" {
				t.Errorf("the seed got %v", r.Header)
			}
			text("text/html", links(other.URL+"/page", "/moved"))(rw, r)
		},
		"/moved": away("/moved"),
	})
	r := &rig{T: t, dir: t.TempDir(), changed: map[string]any{"scope": ScopeAll, "depth": int64(1),
		"header": []string{"Authorization=Bearer x", "Cookie=a=b", "X-Api-Key=k", "Accept-Language=de"}}}
	if sum, _, err := r.run(t.Context(), w.URL); err != nil || sum.Stored != 3 {
		t.Errorf("%v, %+v", err, sum)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, path := range []string{"/robots.txt", "/sitemap.xml", "/page", "/moved"} {
		if seen[path] == 0 {
			t.Errorf("%s of the other site was not asked for", path)
		}
	}
}

// TestSeedsWithAPassword: a password in a seed would not be sent, so it is refused, and not shown.
func TestSeedsWithAPassword(t *testing.T) {
	o := Defaults("http://user:hush@example.com/a", "http://user@example.com/b", "http://example.com/@c:d@e")
	_, err := o.check()
	if err == nil || strings.Count(err.Error(), "Authorization=Basic") != 2 || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
}

package demo

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// reach follows links from "/" with plain net/http, five tries a page. It returns the pages that it got, and those that
// it did not get.
func reach(t *testing.T, s *site) (got map[string]string, dead []string) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	get := func(path string) (string, bool) {
		r, err := server.Client().Get(server.URL + path)
		if err != nil {
			return "", false
		}
		defer func() { _ = r.Body.Close() }()
		body, err := io.ReadAll(r.Body)
		return string(body), err == nil && r.StatusCode == http.StatusOK
	}
	got = map[string]string{}
	seen := map[string]bool{"/": true}
	for queue := []string{"/"}; len(queue) > 0; queue = queue[1:] {
		body, ok := "", false
		for try := 0; try < 5 && !ok; try++ {
			body, ok = get(queue[0])
		}
		if !ok {
			dead = append(dead, queue[0])
			continue
		}
		got[queue[0]] = body
		for _, part := range strings.Split(body, `<a href="`)[1:] {
			if path, _, _ := strings.Cut(part, `"`); !seen[path] {
				seen[path] = true
				queue = append(queue, path)
			}
		}
	}
	return got, dead
}

// TestSiteIsReachable follows its links, through all faults: what passes does, and what stays does.
func TestSiteIsReachable(t *testing.T) {
	t.Parallel()
	for _, pages := range []int{1, 2, 26, 300} {
		s := newSite(pages, uint64(pages))
		got, dead := reach(t, s)
		if len(got)+len(dead) != pages || len(dead) != s.with(failing) {
			t.Errorf("of %d pages %d were got, and %d of %d failed", pages, len(got), len(dead), s.with(failing))
		}
		bad := 0
		for path, body := range got {
			if strings.Count(body, "<title>") != 1 || strings.Count(body, "<main>") != 1 || !utf8.ValidString(body) {
				bad++
				if s.byPath[path].fault != broken {
					t.Errorf("%s is not broken, and no page: %q", path, body)
				}
			}
		}
		if bad != s.with(broken) {
			t.Errorf("of %d pages %d are broken, %d cannot be read", pages, s.with(broken), bad)
		}
	}
}

func TestSiteHasEveryFault(t *testing.T) {
	s := newSite(100, 7)
	for f := none + 1; f <= broken; f++ {
		if f != passes && s.with(f) == 0 {
			t.Errorf("no page has fault %d", f)
		}
	}
	if s.with(failing) != lasting[failing] || s.with(broken) != lasting[broken] {
		t.Errorf("%d pages fail, %d are broken", s.with(failing), s.with(broken))
	}
}

// TestSameSite makes a site twice, and with another seed.
func TestSameSite(t *testing.T) {
	pages := func(seed uint64) map[string]fault {
		of := map[string]fault{}
		for path, p := range newSite(400, seed).byPath {
			of[path] = p.fault
		}
		return of
	}
	a, other := pages(7), pages(8)
	if !maps.Equal(a, pages(7)) || maps.Equal(a, other) {
		t.Error("the seed does not say which pages have a fault")
	}
	if !slices.Equal(slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(other))) {
		t.Error("the seed changes the pages")
	}
	one, two := newSite(400, 7), newSite(400, 7)
	for i, p := range one.pages {
		if string(one.body(p)) != string(two.body(two.pages[i])) {
			t.Fatalf("%s differs", p.path)
		}
	}
}

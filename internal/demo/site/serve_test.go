package site

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAnswers(t *testing.T) {
	s := open(t, Options{Pages: 60})
	for _, test := range []struct {
		method, path string
		status       int
		contentType  string
		body         string
	}{
		{"GET", "/", 200, typeHTML, "<h1>Everything</h1>"},
		{"GET", "/topic/1?q=1", 200, typeHTML, "Topic 1"},
		{"GET", "/robots.txt", 200, typeText, "User-agent: *\nDisallow: /healthz\n"},
		{"GET", "/healthz", 200, typeText, "ok\n"},
		{"GET", "/topic/nowhere", 404, typeHTML, "404 Not Found"},
		{"GET", "/topic", 404, typeHTML, ""},
		{"GET", "/src/../topic/1", 404, typeHTML, ""},
		{"GET", "/topic/1/", 301, typeHTML, `href="/topic/1"`},
		{"POST", "/", 405, typeHTML, "405 Method Not Allowed"},
	} {
		w := answer(s, test.method, test.path, nil)
		if w.Code != test.status || w.Header().Get("Content-Type") != test.contentType ||
			!strings.Contains(w.Body.String(), test.body) {
			t.Errorf("%s %s: %d, %s, %s", test.method, test.path, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
	}
	if got, want := s.Requests("/"), 1; got != want {
		t.Errorf("%d requests for /, want %d", got, want)
	}
	if s.Requests("/robots.txt") != 1 || s.Requests("/topic/nowhere") != 0 || s.MaxConcurrent() != 1 {
		t.Errorf("counted %d, %d, %d", s.Requests("/robots.txt"), s.Requests("/topic/nowhere"), s.MaxConcurrent())
	}
	if got, want := s.Tally(), (Tally{Requests: 8, Good: 3, NotFound: 3, Refused: 2}); got != want {
		t.Errorf("tally %+v, want %+v", got, want)
	}
}

func TestConditionalRequest(t *testing.T) {
	s := open(t, Options{Pages: 60})
	first := answer(s, "GET", "/topic/1", nil)
	again := answer(s, "GET", "/topic/1", http.Header{"If-None-Match": {first.Header().Get("ETag")}})
	if again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("%d with %d bytes, want 304 with none", again.Code, again.Body.Len())
	}
	other := answer(s, "GET", "/topic/0", http.Header{"If-None-Match": {first.Header().Get("ETag")}})
	if other.Code != http.StatusOK {
		t.Errorf("another page's ETag: %d, want 200", other.Code)
	}
	head := answer(s, "HEAD", "/topic/1", nil)
	if head.Code != 200 || head.Body.Len() > 0 || head.Header().Get("ETag") != first.Header().Get("ETag") {
		t.Errorf("HEAD: %d with %d bytes, %v", head.Code, head.Body.Len(), head.Header())
	}
	if got, want := s.Tally(), (Tally{Requests: 4, Good: 3, NotModified: 1}); got != want {
		t.Errorf("tally %+v, want %+v", got, want)
	}
}

// TestBrokenPage holds the broken pages to what doc.go says of them, so that a
// parser that looks at any one of these things fails.
func TestBrokenPage(t *testing.T) {
	s := open(t, Options{Pages: 400, Faults: FaultRates{Broken: 4}})
	if len(s.Broken()) != 4 {
		t.Fatalf("broken: %q, want 4", s.Broken())
	}
	for _, path := range s.Broken() {
		for range 3 {
			w := answer(s, "GET", path, nil)
			body := w.Body.String()
			if w.Code != 200 || w.Header().Get("Content-Type") != typeHTML {
				t.Errorf("%s: %d, %s", path, w.Code, w.Header().Get("Content-Type"))
			}
			if !strings.Contains(body, BrokenMarker) || strings.Contains(body, "<title") ||
				strings.Contains(body, "<main") ||
				strings.Contains(body, "</div>") || utf8.ValidString(body) {
				t.Errorf("%s is not broken: %q", path, body)
			}
		}
		if len(s.Plan(path)) > 0 || s.Requests(path) != 3 {
			t.Errorf("%s: plan %v, %d requests", path, s.Plan(path), s.Requests(path))
		}
	}
}

// TestCountedBeforeTheEnd looks at the counts between the pieces of an answer.
func TestCountedBeforeTheEnd(t *testing.T) {
	s := open(t, Options{Pages: 300})
	for _, path := range []string{"/", "/topic/0", "/topic/0/page/3", "/robots.txt", "/nowhere"} {
		w := &watchedWriter{ResponseRecorder: httptest.NewRecorder(), site: s, before: s.Tally().Requests}
		s.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		if !w.open || w.late {
			t.Errorf("%s: open until the last byte: %v, and after it: %v", path, w.open, w.late)
		}
	}
}

// watchedWriter notes what the site counts at each write.
type watchedWriter struct {
	*httptest.ResponseRecorder
	site   *Site
	before int64
	open   bool // the request was being answered at some write
	late   bool // it was not yet counted as answered at the last one
}

func (w *watchedWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseRecorder.Write(p)
	open := w.site.now == 1 && w.site.Tally().Requests == w.before
	if strconv.Itoa(w.Body.Len()) == w.Header().Get("Content-Length") {
		w.late = open
	} else {
		w.open = open
	}
	return n, err
}

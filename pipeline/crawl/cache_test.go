package crawl

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// TestASecondCrawlAsksOnConditions: pages that have not changed are not sent again, and the output is the
// same; one that has changed is new, and a file of the cache that is damaged costs one request.
func TestASecondCrawlAsksOnConditions(t *testing.T) {
	var whole, unchanged atomic.Int64
	title := "one"
	page := func(path string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			tag := fmt.Sprintf("%q", path+title)
			if path != "/2" {
				tag = fmt.Sprintf("%q", path)
			}
			w.Header().Set("ETag", tag)
			if r.Header.Get("If-None-Match") == tag {
				unchanged.Add(1)
				w.WriteHeader(http.StatusNotModified)
				return
			}
			whole.Add(1)
			text("text/html; charset=iso-8859-1", "<title>"+path+title+" \xe9</title>"+links("/1", "/2", "/3"))(w, r)
		}
	}
	w := newWeb(t, map[string]http.HandlerFunc{"/": page("/"), "/1": page("/1"), "/2": page("/2"), "/3": page("/3")})
	r := &rig{T: t, dir: t.TempDir()}
	crawled := func() map[string]Record {
		whole.Store(0)
		unchanged.Store(0)
		_, pages, err := r.run(t.Context(), w.URL)
		if err != nil {
			t.Fatal(err)
		}
		for at, p := range pages {
			p.FetchedAt = time.Time{}
			pages[at] = p
		}
		return pages
	}
	first := crawled()
	same := func(a, b Record) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
	if second := crawled(); whole.Load() != 0 || unchanged.Load() != 4 || !maps.EqualFunc(first, second, same) {
		t.Errorf("unchanged: %d whole, %d not modified:\n%v\n%v", whole.Load(), unchanged.Load(), first, second)
	}
	title = "two"
	if third := crawled(); whole.Load() != 1 || third["/2"].Title != "/2two é" || third["/1"].Title != "/1one é" {
		t.Errorf("one has changed: %d whole, %v", whole.Load(), third)
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "cache", "*", "*"))
	if err != nil || len(files) != 4 {
		t.Fatalf("the cache has %v, %v", files, err)
	}
	body, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], body[:len(body)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if crawled(); whole.Load() != 1 {
		t.Errorf("a damaged file: %d whole answers, want 1", whole.Load())
	}
}

func TestContentEncodings(t *testing.T) {
	const page = "<title>packed</title>"
	packed := func(coding string, writer func(io.Writer) io.WriteCloser) http.HandlerFunc {
		var b bytes.Buffer
		z := writer(&b)
		_, _ = io.WriteString(z, page)
		_ = z.Close()
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", coding)
			text("text/html", b.String())(w, r)
		}
	}
	br := func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) }
	zst := func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}
	bomb := func(w io.Writer) io.WriteCloser {
		z := brotli.NewWriter(w)
		_, _ = z.Write(make([]byte, 8<<20))
		return z
	}
	w := newWeb(t, map[string]http.HandlerFunc{
		"/": text("text/html", links("/br", "/zstd", "/bomb", "/none")), "/br": packed("br", br),
		"/zstd": packed("zstd", zst), "/bomb": packed("br", bomb),
		"/none": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "utf-8")
			text("text/html", page)(w, r)
		},
	})
	r := &rig{T: t, dir: t.TempDir()}
	sum, got, _ := r.run(t.Context(), w.URL)
	for _, at := range []string{"/br", "/zstd", "/none"} {
		if got[at].Title != "packed" || got[at].Bytes != int64(len(page)) {
			t.Errorf("%s: %+v", at, got[at])
		}
	}
	if sum.Dead != 1 || len(w.times("/bomb")) != 1 {
		t.Errorf("a body that is small until it is unpacked: %+v, asked for %d times", sum, len(w.times("/bomb")))
	}
}

// The folder .pawl is there as long as an answer is kept in it.
func TestFolderOfTheCache(t *testing.T) {
	w := newWeb(t, map[string]http.HandlerFunc{"/": text("text/html", "<title>no tag</title>")})
	r := &rig{T: t, dir: t.TempDir()}
	dir := filepath.Join(r.dir, ".pawl")
	r.changed = map[string]any{"cache": filepath.Join(dir, "crawl")}
	if _, _, err := r.run(t.Context(), w.URL); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing is kept, and the folder is there: %v", err)
	}
	old := filepath.Join(dir, "crawl", "ab", "cd")
	if err := errors.Join(os.MkdirAll(filepath.Dir(old), 0o755), os.WriteFile(old, nil, 0o644),
		os.Chtimes(old, time.Time{}, time.Now().Add(-2*cacheFor))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.run(t.Context(), w.URL); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was kept is too old, and the folder is there: %v", err)
	}
}

// TestWishesOfAnUnchangedPage: an answer that is kept has what its headers asked of crawlers.
func TestWishesOfAnUnchangedPage(t *testing.T) {
	w := newWeb(t, map[string]http.HandlerFunc{
		"/": func(rw http.ResponseWriter, r *http.Request) {
			if rw.Header().Set("Etag", `"1"`); r.Header.Get("If-None-Match") != "" {
				rw.WriteHeader(http.StatusNotModified)
				return
			}
			rw.Header().Set("X-Robots-Tag", "nofollow")
			text("text/html", links("/1"))(rw, r)
		},
		"/1": text("text/html", "1"),
	})
	r := &rig{T: t, dir: t.TempDir()}
	for range 2 {
		sum, _, err := r.run(t.Context(), w.URL)
		if err != nil || sum.Stored != 1 || sum.LeftOut[whyNoFollow].Count != 1 {
			t.Errorf("%v, %+v", err, sum)
		}
	}
}

// TestBodiesThatGoOn: a robots.txt beyond all bounds counts as far as it is read, and a body in gzip up to its end.
func TestBodiesThatGoOn(t *testing.T) {
	w := newWeb(t, map[string]http.HandlerFunc{
		"/robots.txt": text("text/plain", "User-agent: *\nDisallow: /closed\n"+strings.Repeat("# x\n", 1<<19)),
		"/":           text("text/html", links("/closed", "/zip")),
		"/zip": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(rw)
			_, _ = io.WriteString(z, "<title>zip</title>")
			_ = z.Close()
			_, _ = io.WriteString(rw, strings.Repeat("and more", 10))
		},
	})
	r := &rig{T: t, dir: t.TempDir()}
	sum, got, err := r.run(t.Context(), w.URL)
	if err != nil || sum.Excluded != 1 || len(got) != 2 || got["/zip"].Title != "zip" {
		t.Errorf("%v, %+v, %+v", err, sum, got)
	}
}

// TestUnchangedPageWithALocation: 304 is no redirect, whatever its headers are.
func TestUnchangedPageWithALocation(t *testing.T) {
	w := newWeb(t, map[string]http.HandlerFunc{"/": func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Etag", `"one"`)
		rw.Header().Set("Location", "/")
		if r.Header.Get("If-None-Match") != "" {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
		text("text/html", "<title>one</title>")(rw, r)
	}})
	r := &rig{T: t, dir: t.TempDir()}
	for range 2 {
		if sum, pages, err := r.run(t.Context(), w.URL); err != nil || sum.Stored != 1 || pages["/"].Title != "one" {
			t.Errorf("%v, %+v, %v", err, sum, pages)
		}
	}
	if n := len(w.times("/")); n != 2 {
		t.Errorf("it was asked for %d times", n)
	}
}

package crawl

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// web is a site with a log of its own: that is the judge.
type web struct {
	*httptest.Server
	mu       sync.Mutex
	asked    map[string][]time.Time
	inFlight int
	most     int
}

func newWeb(t *testing.T, pages map[string]http.HandlerFunc) *web {
	t.Helper()
	w := &web{asked: map[string][]time.Time{}}
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.asked[r.URL.RequestURI()] = append(w.asked[r.URL.RequestURI()], time.Now())
		w.inFlight++
		w.most = max(w.most, w.inFlight)
		w.mu.Unlock()
		defer func() {
			w.mu.Lock()
			w.inFlight--
			w.mu.Unlock()
		}()
		if page := pages[r.URL.Path]; page != nil {
			page(rw, r)
			return
		}
		http.NotFound(rw, r)
	}))
	t.Cleanup(w.Close)
	return w
}

func (w *web) times(uri string) []time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[uri]
}

func text(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

func links(refs ...string) string {
	var b strings.Builder
	for _, ref := range refs {
		fmt.Fprintf(&b, "<a href=%q>x</a>", ref)
	}
	return b.String()
}

// rig runs the command on a store of its own.
type rig struct {
	*testing.T
	dir     string
	changed map[string]any
	module  pipeline.Section // what --module reads
}

func (r *rig) run(ctx context.Context, seeds ...string) (sum Summary, pages map[string]Record, err error) {
	r.Helper()
	s, failed := sqlite.Open(r.Context(), sqlite.Config{Path: filepath.Join(r.dir, "pawl.db")})
	if failed != nil {
		r.Fatal(failed)
	}
	defer func() { _ = s.Close() }()
	matrix, failed := policy.NewMatrixOf(nil, Rules())
	if failed != nil {
		r.Fatal(failed)
	}
	values := map[string]any{
		"out": filepath.Join(r.dir, "pages.jsonl"), "scope": ScopeHost, "concurrency": int64(16), "per-host": int64(2),
		"timeout":   5 * time.Second,
		"max-bytes": int64(1 << 20), "user-agent": defaultAgent, "allow-private": true, "delay": time.Duration(0),
		"cache": filepath.Join(r.dir, "cache"),
	}
	given := map[string]bool{}
	for k, v := range r.changed {
		values[k], given[k] = v, true
	}
	var out bytes.Buffer
	err = crawl(ctx, &pipeline.Invocation{
		Args: seeds, Flags: pipeline.NewValues(command().Flags, values, given), Stdout: &out, Stderr: io.Discard,
		Output: "json", Quiet: true,
		Logger: slog.New(slog.DiscardHandler), Policy: matrix, Owner: "test",
		Section: func(string, string) (pipeline.Section, error) { return r.module, nil },
		Open:    func(context.Context, string, bool) (store.Store, error) { return s, nil },
	})
	if out.Len() > 0 {
		if err := json.Unmarshal(out.Bytes(), &sum); err != nil {
			r.Fatal(err)
		}
	}
	return sum, r.pages(), err
}

func (r *rig) pages() map[string]Record {
	text, err := os.ReadFile(filepath.Join(r.dir, "pages.jsonl"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	pages := map[string]Record{}
	for line := range strings.Lines(string(text)) {
		var p Record
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		if err := d.Decode(&p); err != nil {
			r.Fatal(err)
		}
		at := p.URL[strings.Index(p.URL[8:], "/")+8:]
		if _, twice := pages[at]; twice {
			r.Errorf("%s is stored twice", at)
		}
		pages[at] = p
	}
	return pages
}

func code(err error) int {
	if e, ok := errors.AsType[*pipeline.Error](err); ok {
		return e.Code
	}
	return 0
}

const latin = "<title>caf\xe9</title>"

// traps is a site with one of each.
func traps() map[string]http.HandlerFunc {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write([]byte("<title>packed</title>"))
	_ = z.Close()
	pages := map[string]http.HandlerFunc{
		"/robots.txt": text("text/plain", "User-agent: *\nDisallow: /secret\n"),
		"/": text("text/html", links("/a", "/a#x", "/A/../a", "/secret/x", "/latin", "/meta", "/gzip", "/moved",
			"/loop1", "/chain0", "/cookie", "/large",
			"/deep", "/base/page", "http://elsewhere.example/", "mailto:a@b", "/file.bin", "/404", "/cut")),
		"/a":     text("text/html", "<title>A &amp; B</title>"+links("/")),
		"/latin": text("text/html; charset=iso-8859-1", latin),
		"/meta":  text("text/html", `<meta charset="windows-1252"><title>caf`+"\xe9</title>"),
		"/gzip": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(zipped.Bytes())
		},
		"/moved": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/target", http.StatusMovedPermanently)
		},
		"/target": text("text/html", "<title>target</title>"),
		"/loop1":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop2", http.StatusFound) },
		"/loop2":  func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop1", http.StatusFound) },
		"/cookie": func(w http.ResponseWriter, r *http.Request) {
			if _, err := r.Cookie("seen"); err != nil {
				http.SetCookie(w, &http.Cookie{Name: "seen", Value: "1", Path: "/"})
				http.Redirect(w, r, "/cookie", http.StatusFound)
				return
			}
			text("text/html", "<title>with a cookie</title>")(w, r)
		},
		"/large":     text("text/html", strings.Repeat("x", 2<<20)),
		"/deep":      text("text/html", "<title>deep</title>"+strings.Repeat("<div>", 100_000)+links("/under")),
		"/under":     text("text/html", "<title>under</title>"),
		"/base/page": text("text/html", `<base href="/other/">`+links("rel")),
		"/other/rel": text("text/html", "<title>rel</title>"),
		"/file.bin":  text("application/octet-stream", "\x00\x01\x02"),
		"/cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "short")
		},
	}
	for i := range 12 {
		pages[fmt.Sprintf("/chain%d", i)] = func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, fmt.Sprintf("/chain%d", i+1), http.StatusFound)
		}
	}
	return pages
}

func TestCrawlOfASiteWithTraps(t *testing.T) {
	w := newWeb(t, traps())
	r := &rig{T: t, dir: t.TempDir()}
	sum, got, err := r.run(t.Context(), w.URL)
	if code(err) != pipeline.ExitPartly {
		t.Errorf("got %v, want exit code 3", err)
	}
	for path, title := range map[string]string{
		"/": "", "/a": "A & B", "/latin": "café", "/meta": "café", "/gzip": "packed", "/moved": "target",
		"/cookie": "with a cookie", "/deep": "deep",
		"/under": "under", "/base/page": "", "/other/rel": "rel", "/file.bin": "",
	} {
		if p, ok := got[path]; !ok || p.Title != title {
			t.Errorf("%s: stored %v, title %q, want %q", path, ok, p.Title, title)
		}
	}
	if len(got) != 12 || sum.Stored != 12 {
		t.Errorf("%d pages are stored, the summary says %d: %v", len(got), sum.Stored, got)
	}
	if p := got["/moved"]; !strings.HasSuffix(p.FinalURL, "/target") || p.Depth != 1 {
		t.Errorf("the redirected page: %+v", p)
	}
	if hash := sha256.Sum256([]byte(latin)); got["/latin"].SHA256 != hex.EncodeToString(hash[:]) ||
		got["/latin"].Charset != "windows-1252" {
		t.Errorf("/latin: %+v", got["/latin"])
	}
	if got["/gzip"].Bytes != int64(len("<title>packed</title>")) || got["/under"].Depth != 2 ||
		got["/deep"].Links != 1 {
		t.Errorf("/gzip: %+v, /under: %+v", got["/gzip"], got["/under"])
	}
	// large, 404, cut, chain, loop
	if sum.Discovered != sum.Stored+sum.Duplicate+sum.Excluded+sum.Dead || sum.Dead != 5 {
		t.Errorf("the account: %+v", sum)
	}
	if n := len(w.times("/secret/x")); n != 0 {
		t.Errorf("what robots.txt disallows was asked for %d times", n)
	}
	if n := len(w.times("/cut")); n != 5 {
		t.Errorf("a truncated answer was tried %d times, want 5", n)
	}
	if n := len(w.times("/a")); n != 1 || w.most > 2 {
		t.Errorf("/a was asked for %d times, and %d requests were in flight", n, w.most)
	}
}

func TestRetryAfterKeepsEverybodyOffTheHost(t *testing.T) {
	var first sync.Once
	w := newWeb(t, map[string]http.HandlerFunc{
		"/": text("text/html", links("/1", "/2", "/3", "/busy", "/4", "/5")),
		"/busy": func(w http.ResponseWriter, r *http.Request) {
			refuse := false
			first.Do(func() { refuse = true })
			if refuse {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			text("text/html", "well again")(w, r)
		},
		"/1": text("text/html", "1"), "/2": text("text/html", "2"), "/3": text("text/html", "3"),
		"/4": text("text/html", "4"), "/5": text("text/html", "5"),
	})
	r := &rig{T: t, dir: t.TempDir(), changed: map[string]any{"per-host": int64(1)}}
	sum, _, err := r.run(t.Context(), w.URL)
	if err != nil || sum.Stored != 7 || sum.Dead != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	refused := w.times("/busy")[0]
	w.mu.Lock()
	defer w.mu.Unlock()
	for uri, times := range w.asked {
		for _, at := range times {
			if after := at.Sub(refused); after > 0 && after < 900*time.Millisecond {
				t.Errorf("%s was asked for %v after the host asked for a second's peace", uri, after)
			}
		}
	}
}

func TestAnInterruptedCrawlGoesOn(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const pages = 200
	site := map[string]http.HandlerFunc{"/": text("text/html", links("/p0"))}
	for i := range pages {
		site[fmt.Sprintf("/p%d", i)] = func(w http.ResponseWriter, r *http.Request) {
			if i == pages/2 {
				stop()
			}
			text("text/html", links(fmt.Sprintf("/p%d", i+1), fmt.Sprintf("/p%d", (i+7)%pages)))(w, r)
		}
	}
	site[fmt.Sprintf("/p%d", pages)] = text("text/html", "the end")
	w := newWeb(t, site)
	r := &rig{T: t, dir: t.TempDir()}
	if _, got, err := r.run(ctx, w.URL); code(err) != pipeline.ExitUnfinished || got != nil ||
		strings.Contains(err.Error(), "stored 0 pages") {
		t.Fatalf("interrupted: %v, %d pages", err, len(got))
	}
	if _, _, err := r.run(t.Context(), w.URL); code(err) != pipeline.ExitConflict {
		t.Fatalf("without --resume: %v", err)
	}
	if _, _, err := r.run(t.Context(), w.URL+"/other"); code(err) != pipeline.ExitConflict {
		t.Fatalf("another crawl in the same store: %v", err)
	}
	r.changed = map[string]any{"resume": true}
	sum, got, err := r.run(t.Context(), w.URL)
	if err != nil || len(got) != pages+2 || sum.Stored != pages+2 ||
		sum.Discovered != sum.Stored+sum.Duplicate+sum.Excluded+sum.Dead {
		t.Fatalf("resumed: %v, %d pages, %+v", err, len(got), sum)
	}
	r.changed = nil
	again, got, err := r.run(t.Context(), w.URL) // a new run: everything is asked for anew
	if err != nil || len(got) != pages+2 || again.Discovered != sum.Discovered || again.Requests != pages+2 {
		t.Fatalf("the second run: %v, %d pages, %+v", err, len(got), again)
	}
}

// TestAFailingPageLeavesItsHostToOthers: they are asked before it is tried again.
func TestAFailingPageLeavesItsHostToOthers(t *testing.T) {
	var failed atomic.Bool
	w := newWeb(t, map[string]http.HandlerFunc{
		"/": text("text/html", links("/bad", "/a")),
		"/bad": func(w http.ResponseWriter, r *http.Request) {
			if !failed.Swap(true) {
				w.WriteHeader(http.StatusInternalServerError)
			}
		},
		"/a": text("text/html", "a"),
	})
	r := &rig{T: t, dir: t.TempDir(), changed: map[string]any{"per-host": int64(1)}}
	if _, pages, err := r.run(t.Context(), w.URL); err != nil || len(pages) != 3 {
		t.Fatal(len(pages), err)
	}
	bad, a := w.times("/bad"), w.times("/a")
	if len(bad) != 2 || len(a) != 1 || a[0].Before(bad[0]) || a[0].After(bad[1]) {
		t.Errorf("the bad page was asked at %v, the other one at %v", bad, a)
	}
}

func TestLimits(t *testing.T) {
	site := map[string]http.HandlerFunc{"/": text("text/html", links("/p0"))}
	for i := range 50 {
		site[fmt.Sprintf("/p%d", i)] = text("text/html", links(fmt.Sprintf("/p%d", i+1)))
	}
	w := newWeb(t, site)
	r := &rig{T: t, dir: t.TempDir(), changed: map[string]any{"depth": int64(3)}}
	if sum, got, err := r.run(t.Context(), w.URL); err != nil || len(got) != 4 || sum.Excluded != 1 {
		t.Errorf("depth 3: %v, %d pages, %+v", err, len(got), sum)
	}
	r = &rig{T: t, dir: t.TempDir(), changed: map[string]any{"max-pages": int64(10)}}
	if sum, got, err := r.run(t.Context(), w.URL); err != nil || len(got) != 10 || sum.Stored != 10 {
		t.Errorf("10 pages: %v, %d pages, %+v", err, len(got), sum)
	}
	r = &rig{T: t, dir: t.TempDir(), changed: map[string]any{"allow-private": false}}
	if _, _, err := r.run(t.Context(), w.URL); code(err) != pipeline.ExitUsage ||
		!strings.Contains(err.Error(), "--allow-private") {
		t.Errorf("a private address: %v", err)
	}
	r = &rig{T: t, dir: t.TempDir(), changed: map[string]any{"scope": ScopeHost, "out": "pages.pdf",
		"per-host": int64(0)}}
	_, _, err := r.run(t.Context(), "example.com")
	for _, want := range []string{"--per-host", "pages.pdf", "https://example.com"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("all problems at once: %v lacks %s", err, want)
		}
	}
}

func TestDelayBetweenRequests(t *testing.T) {
	w := newWeb(t, map[string]http.HandlerFunc{
		"/robots.txt": text("text/plain", "User-agent: *\nCrawl-delay: 0.3\n"),
		"/":           text("text/html", links("/1", "/2", "/3")),
		"/1":          text("text/html", "1"), "/2": text("text/html", "2"), "/3": text("text/html", "3"),
	})
	r := &rig{T: t, dir: t.TempDir()}
	if sum, _, err := r.run(t.Context(), w.URL); err != nil || sum.Stored != 4 {
		t.Fatalf("%+v, %v", sum, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []time.Time
	for _, times := range w.asked {
		all = append(all, times...)
	}
	slices.SortFunc(all, time.Time.Compare)
	if took := all[len(all)-1].Sub(all[0]); took < 1050*time.Millisecond {
		t.Errorf("%d requests in %v: they are to be 300 ms apart", len(all), took)
	}
}

// A seed whose robots.txt cannot be read is not left out without a word: nothing there is asked for, and it is a dead
// letter. What other pages link to there is excluded.
func TestSeedWithoutRobotsIsADeadLetter(t *testing.T) {
	down := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	shut := newWeb(t, map[string]http.HandlerFunc{"/robots.txt": down, "/": text("text/html", "no")})
	w := newWeb(t, map[string]http.HandlerFunc{"/": text("text/html", links(shut.URL+"/linked"))})
	r := &rig{T: t, dir: t.TempDir(), changed: map[string]any{"scope": ScopeAll}}
	sum, _, err := r.run(t.Context(), w.URL, shut.URL)
	if code(err) != pipeline.ExitPartly || sum.Stored != 1 || sum.Dead != 1 || sum.Excluded != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	if n := len(shut.times("/")) + len(shut.times("/linked")); n != 0 {
		t.Errorf("%d pages were asked for", n)
	}
}

func TestEveryFailureHasARow(t *testing.T) {
	m, err := policy.NewMatrixOf(nil, Rules())
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[pawl.Kind]policy.Action{
		KindTransfer: policy.Retry, policy.KindRateLimit: policy.Retry, KindStatus: policy.Dead,
		KindTooLarge: policy.Dead, KindRedirect: policy.Dead, KindPrivate: policy.Dead,
	} {
		d := m.Decide(policy.Attempt{Event: download, Number: 1, Err: pawl.OfKind(kind, errors.New("x"))})
		if d.Action != want || d.Rule == "default" {
			t.Errorf("%s: %v by %s, want %v", kind, d.Action, d.Rule, want)
		}
	}
	if d := m.Decide(policy.Attempt{Event: download, Number: 5,
		Err: pawl.OfKind(KindTransfer, errors.New("x"))}); d.Action != policy.Dead {
		t.Errorf("the fifth attempt: %v", d.Action)
	}
}

func TestSitemaps(t *testing.T) {
	var w *web
	xmlOf := func(body string) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			text("application/xml", strings.ReplaceAll(body, "HOST", w.URL))(rw, r)
		}
	}
	var many strings.Builder
	many.WriteString("<urlset>")
	for i := range sitemapPart + 10 {
		many.WriteString(fmt.Sprintf("<url><loc>HOST/many?%d</loc></url>", i))
	}
	w = newWeb(t, map[string]http.HandlerFunc{
		"/robots.txt": xmlOf("User-agent: *\nDisallow: /many\nSitemap: HOST/index.xml\nSitemap: HOST/gone.xml\nSitemap: /relative.xml\n"),
		// Its header says gzip, and it is not; its links are relative.
		"/relative.xml": func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Encoding", "gzip")
			xmlOf("<urlset><url><loc>/c</loc></url></urlset>")(rw, r)
		},
		"/c": text("text/html", "c"),
		"/index.xml": xmlOf(
			`<?xml version="1.0"?><sitemapindex><sitemap><loc> HOST/one.xml </loc></sitemap><sitemap><loc>HOST/two.xml.gz</loc></sitemap><sitemap><loc>HOST/many.xml</loc></sitemap></sitemapindex>`),
		"/one.xml": xmlOf(
			"<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'><url><loc>HOST/a?x=1&amp;y=2</loc><lastmod>2026-01-01</lastmod></url><url><loc>http://elsewhere.example/</loc></url></urlset>"),
		"/two.xml.gz": func(rw http.ResponseWriter, _ *http.Request) {
			z := gzip.NewWriter(rw)
			_, _ = fmt.Fprintf(z, "<urlset><url><loc>%s/b</loc></url></urlset>", w.URL)
			_ = z.Close()
		},
		"/b":        text("text/html", "b"),
		"/many.xml": xmlOf(many.String() + "</urlset>"),
		"/":         text("text/html", links("/a?x=1&y=2")),
		"/a":        text("text/html", links("/deeper")),
		"/deeper":   text("text/html", "deeper"),
	})
	r := &rig{T: t, dir: t.TempDir()}
	sum, got, err := r.run(t.Context(), w.URL)
	if err != nil || len(got) != 5 || got["/a?x=1&y=2"].Depth != 1 || got["/deeper"].Depth != 2 {
		t.Errorf("%v, pages %v", err, got)
	}
	if sum.Excluded != sitemapPart+10+1 || sum.Discovered != sum.Stored+sum.Duplicate+sum.Excluded+sum.Dead {
		t.Errorf("the account: %+v", sum) // many are disallowed, and one is elsewhere
	}
}

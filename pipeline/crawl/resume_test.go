package crawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// TestCookiesSurvive: a crawl that goes on is still the visitor that it was.
func TestCookiesSurvive(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var visitors sync.Map
	w := newWeb(t, map[string]http.HandlerFunc{
		"/": func(rw http.ResponseWriter, r *http.Request) {
			http.SetCookie(rw, &http.Cookie{Name: "visitor", Value: pawl.NewID(), Path: "/"})
			text("text/html", links("/1"))(rw, r)
		},
		"/1": func(rw http.ResponseWriter, r *http.Request) {
			stop()
			text("text/html", links("/2"))(rw, r)
		},
		"/2": func(rw http.ResponseWriter, r *http.Request) {
			if c, err := r.Cookie("visitor"); err == nil {
				visitors.Store(c.Value, true)
			}
			text("text/html", "2")(rw, r)
		},
	})
	r := &rig{T: t, dir: t.TempDir()}
	if _, _, err := r.run(ctx, w.URL); code(err) != pipeline.ExitUnfinished {
		t.Fatalf("interrupted: %v", err)
	}
	r.changed = map[string]any{"resume": true}
	if sum, _, err := r.run(t.Context(), w.URL); err != nil || sum.Stored != 3 {
		t.Fatalf("resumed: %v, %+v", err, sum)
	}
	n := 0
	visitors.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d visitors asked for the last page, want the one that began", n)
	}
}

// TestNewsSurvives: a crawl that goes on does not look again for news at places that have none.
func TestNewsSurvives(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const before = 40
	w := newWeb(t, map[string]http.HandlerFunc{
		"/": func(rw http.ResponseWriter, r *http.Request) {
			n, _ := strconv.Atoi(r.URL.Query().Get("n"))
			if n == before {
				stop()
			}
			text("text/html", fmt.Sprintf(`<a href="/?n=%d">on</a>`, n+1))(rw, r)
		},
	})
	r := &rig{T: t, dir: t.TempDir()}
	if _, _, err := r.run(ctx, w.URL); code(err) != pipeline.ExitUnfinished {
		t.Fatalf("interrupted: %v", err)
	}
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(r.dir, "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	seed := mustParse(t, w.URL+"/")
	_, _, c, err := start(t.Context(), s, Name, []*url.URL{seed}, Defaults(w.URL), true, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.news.tally(place(mustParse(t, w.URL+"/?n=1"))); got < (before-5)*idleSame {
		t.Errorf("%d points after %d pages without news", got, before)
	}
	if got := c.news.tally(hash64(realm(seed))); got < before-5 {
		t.Errorf("%d dull pages", got)
	}
}

// TestTopicOfAnEarlierVersion: a crawl takes its topic as it is.
func TestTopicOfAnEarlierVersion(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(r.dir, "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Declare(t.Context(), store.Declaration{Name: "crawl.request", Order: store.OrderKey, Tail: new(false)})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	w := newWeb(t, map[string]http.HandlerFunc{"/": text("text/html", "one")})
	if sum, _, err := r.run(t.Context(), w.URL); err != nil || sum.Stored != 1 {
		t.Fatalf("%v, %+v", err, sum)
	}
}

// TestASeedMayLeadToAnotherHost: its pages are what is meant, and that survives the process.
func TestASeedMayLeadToAnotherHost(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	w := newWeb(t, map[string]http.HandlerFunc{
		"/": func(rw http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.Host, "localhost") {
				http.Redirect(rw, r, "http://127.0.0.1"+r.Host[strings.IndexByte(r.Host, ':'):]+"/",
					http.StatusMovedPermanently)
				return
			}
			text("text/html", links("/1"))(rw, r)
		},
		"/1": func(rw http.ResponseWriter, r *http.Request) {
			stop()
			text("text/html", links("/2"))(rw, r)
		},
		"/2": text("text/html", links("/3")), "/3": text("text/html", "3"),
	})
	seed := strings.Replace(w.URL, "127.0.0.1", "localhost", 1)
	r := &rig{T: t, dir: t.TempDir()}
	if _, _, err := r.run(ctx, seed); code(err) != pipeline.ExitUnfinished {
		t.Fatalf("interrupted: %v", err)
	}
	r.changed = map[string]any{"resume": true}
	if sum, got, err := r.run(t.Context(), seed); err != nil || sum.Stored != 4 || sum.Excluded != 0 ||
		!strings.HasPrefix(got["/"].FinalURL, w.URL) {
		t.Fatalf("%v, %+v, %v", err, sum, got)
	}
}

// TestReplayAfterTheEnd: a dead letter that is replayed when its crawl is over is asked for by the next one, once, and
// the account closes; in a crawl of something else it counts as excluded.
func TestReplayAfterTheEnd(t *testing.T) {
	var mended atomic.Bool
	w := newWeb(t, map[string]http.HandlerFunc{
		"/": text("text/html", links("/1", "/missing")), "/1": text("text/html", "1"),
		"/other/": text("text/html", "other"),
		"/missing": func(rw http.ResponseWriter, r *http.Request) {
			if !mended.Load() {
				http.NotFound(rw, r)
				return
			}
			text("text/html", links("/1", "/2"))(rw, r)
		},
		"/2": text("text/html", "2"),
	})
	r := &rig{T: t, dir: t.TempDir(), changed: map[string]any{"scope": ScopePrefix}}
	replay := func() {
		s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(r.dir, "pawl.db")})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		for letter, err := range s.Dead(t.Context(), store.DeadFilter{Topic: "crawl.request"}) {
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Replay(t.Context(), "", letter.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if sum, _, err := r.run(t.Context(), w.URL); code(err) != pipeline.ExitPartly || sum.Dead != 1 {
		t.Fatalf("the first crawl: %v, %+v", err, sum)
	}
	replay()
	if sum, _, err := r.run(t.Context(), w.URL+"/other/"); err != nil || sum.Stored != 1 || sum.Excluded != 1 ||
		sum.Discovered != 2 {
		t.Fatalf("a crawl of something else: %v, %+v", err, sum)
	}
	if sum, _, err := r.run(t.Context(), w.URL); code(err) != pipeline.ExitPartly || sum.Dead != 1 {
		t.Fatalf("the third crawl: %v, %+v", err, sum)
	}
	replay()
	mended.Store(true)
	sum, pages, err := r.run(t.Context(), w.URL)
	if err != nil || sum.Stored != 4 || len(pages) != 4 || pages["/2"].Depth != 2 ||
		sum.Discovered != sum.Stored+sum.Duplicate {
		t.Fatalf("the crawl after the replay: %v, %+v, %v", err, sum, pages)
	}
	if n := len(w.times("/missing")); n != 3 {
		t.Errorf("the page that was missing was asked for %d times, want 3", n)
	}
}

// TestAnOldProcessLeavesANewRunAlone: a process of a run that is over does nothing of the one that came after it.
func TestAnOldProcessLeavesANewRunAlone(t *testing.T) {
	c := newCrawler(Name, "old", Defaults("http://a.example/"), nil)
	c.outdated = func(context.Context) bool { return true }
	u := &url.URL{Scheme: "http", Host: "a.example", Path: "/"}
	for _, over := range []bool{false, true} {
		c.over.Store(over)
		d := &pawl.Delivery{Message: newCrawler(Name, "new", Defaults(), nil).visit(u, request{})}
		e, released := errors.AsType[*pawl.ReleaseError](c.Handle(t.Context(), d))
		if !released || e.After > time.Second || len(d.Emitted()) > 0 {
			t.Errorf("it was not given back soon: %v, and %d messages were emitted", e, len(d.Emitted()))
		}
	}
}

// TestALaterCrawlResolvesADeadLetter: the page that failed is stored now, and nobody need look at its letter.
func TestALaterCrawlResolvesADeadLetter(t *testing.T) {
	var mended atomic.Bool
	w := newWeb(t, map[string]http.HandlerFunc{
		"/": text("text/html", links("/1", "/2")),
		"/1": func(rw http.ResponseWriter, r *http.Request) {
			if !mended.Load() {
				http.NotFound(rw, r)
			}
		},
	})
	r := &rig{T: t, dir: t.TempDir()}
	for _, want := range []string{"", "/1"} {
		if _, _, err := r.run(t.Context(), w.URL); code(err) != pipeline.ExitPartly {
			t.Fatal(err)
		}
		mended.Store(true)
		s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(r.dir, "pawl.db")})
		if err != nil {
			t.Fatal(err)
		}
		var resolved strings.Builder
		for letter, err := range s.Dead(t.Context(), store.DeadFilter{Topic: "crawl.request", Resolved: new(true)}) {
			if err != nil {
				t.Fatal(err)
			}
			var q request
			if err := json.Unmarshal(letter.Body, &q); err != nil {
				t.Fatal(err)
			}
			resolved.WriteString(strings.TrimPrefix(q.URL, w.URL))
		}
		if err := s.Close(); err != nil || resolved.String() != want {
			t.Errorf("resolved are %q, want %q; %v", resolved.String(), want, err)
		}
	}
}

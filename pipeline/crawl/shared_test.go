package crawl

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// TestSeveralProcessesShareAHost: the pauses of a host, asked for by robots.txt or with a 429, hold for all processes
// that crawl, and so do cookies; each page is asked for once; and all of them end with the same summary.
func TestSeveralProcessesShareAHost(t *testing.T) {
	refs := make([]string, 6)
	pages := map[string]http.HandlerFunc{"/robots.txt": text("text/plain", "User-agent: *\nCrawl-delay: 0.3\n")}
	var first sync.Once
	for i := range refs {
		refs[i] = fmt.Sprintf("/%d", i)
		pages[refs[i]] = func(w http.ResponseWriter, r *http.Request) {
			refuse := false
			if i == 3 {
				first.Do(func() { refuse = true })
			}
			if refuse {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			if _, err := r.Cookie("visitor"); err != nil {
				t.Errorf("%s was asked for without the cookie", r.URL)
			}
			text("text/html", "x")(w, r)
		}
	}
	pages["/"] = func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "visitor", Value: "1", Path: "/"})
		text("text/html", links(refs...))(w, r)
	}
	w := newWeb(t, pages)
	dir := t.TempDir()
	var sums [3]Summary
	var all sync.WaitGroup
	for i := range sums {
		r := &rig{T: t, dir: dir, changed: map[string]any{"resume": true, "per-host": int64(4),
			"out": filepath.Join(dir, fmt.Sprintf("%d.jsonl", i))}}
		all.Go(func() {
			var err error
			if sums[i], _, err = r.run(t.Context(), w.URL); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, s := range sums {
		if s.Stored != 7 || s.Dead != 0 || s.Out != sums[0].Out {
			t.Errorf("%+v", s)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var asked []time.Time
	for uri, times := range w.asked {
		if uri != "/robots.txt" {
			asked = append(asked, times...)
		}
	}
	slices.SortFunc(asked, time.Time.Compare)
	refused := w.asked["/3"][0]
	inPeace := 0
	for _, at := range asked {
		if after := at.Sub(refused); after > 0 && after < 900*time.Millisecond {
			inPeace++
		}
	}
	if inPeace > 1 { // one may have been on its way
		t.Errorf("%d requests within the second's peace that the host asked for", inPeace)
	}
	if took := asked[len(asked)-1].Sub(asked[0]); took < 2400*time.Millisecond {
		t.Errorf("%d requests in %v: they are to be 300 ms apart, and a second in between", len(asked), took)
	}
	if len(asked) != 8 {
		t.Errorf("%d requests, want 8", len(asked))
	}
}

// TestTheLockOfAnotherRunStays: the end of a crawl frees its own lock of the export, not those of others in the store.
func TestTheLockOfAnotherRunStays(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(r.dir, "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if _, err := s.PutMarks(t.Context(), pawl.Mark{Scope: exportScope, Key: "another", For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	w := newWeb(t, map[string]http.HandlerFunc{"/": text("text/html", "x")})
	if _, _, err := r.run(t.Context(), w.URL); err != nil {
		t.Fatal(err)
	}
	locks := []string{}
	for m, err := range s.ListMarks(t.Context(), exportScope, "") {
		if err != nil {
			t.Fatal(err)
		}
		locks = append(locks, m.Key)
	}
	if !slices.Equal(locks, []string{"another"}) {
		t.Errorf("locks %q are there, want that of the other run alone", locks)
	}
}

// TestAHostIsLeftAloneByAFreshProcess: one that was started while a host wants no request does not ask for its
// robots.txt either.
func TestAHostIsLeftAloneByAFreshProcess(t *testing.T) {
	s := memory.New(memory.Config{})
	marks, _ := store.As[store.Shared](s, store.CanMarks)
	o := Defaults("https://example.com/")
	seeds, err := o.check()
	if err != nil {
		t.Fatal(err)
	}
	crawlers := [2]*crawler{newCrawler(Name, "r", o, seeds), newCrawler(Name, "r", o, seeds)}
	for _, c := range crawlers {
		c.marked.marks, c.marked.scope = marks, scopeOf("r")
	}
	if err := crawlers[0].hold(t.Context(), crawlers[0].hosts.at(seeds[0]), seeds[0], time.Minute); err != nil {
		t.Fatal(err)
	}
	fresh := crawlers[1]
	err = fresh.Handle(t.Context(), &pawl.Delivery{Message: fresh.visit(seeds[0], request{})})
	r, ok := errors.AsType[*pawl.ReleaseError](err)
	if !ok || r.After < 50*time.Second || fresh.count.requests.Load() > 0 {
		t.Errorf("%v, %d requests", err, fresh.count.requests.Load())
	}
}

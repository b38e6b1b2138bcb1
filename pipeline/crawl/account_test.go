package crawl

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// open opens the store of the crawls.
func (r *rig) open() *sqlite.Store {
	r.Helper()
	s, err := sqlite.Open(r.Context(), sqlite.Config{Path: filepath.Join(r.dir, "pawl.db")})
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// ids are those of messages of a listing.
func (r *rig) ids(records func(func(store.Record, error) bool)) (all []string) {
	r.Helper()
	for m, err := range records {
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, m.ID)
	}
	return all
}

// begun is a site, and a function that begins its crawl and ends it when a page has failed, and others are left.
func (r *rig) begun() (w *web, cut func()) {
	var asked atomic.Int64
	var stop atomic.Pointer[context.CancelFunc]
	slow := func(rw http.ResponseWriter, q *http.Request) {
		if f := stop.Load(); f != nil && asked.Add(1) == 2 {
			(*f)()
		}
		time.Sleep(50 * time.Millisecond)
		text("text/html", q.URL.Path)(rw, q)
	}
	w = newWeb(r.T, map[string]http.HandlerFunc{
		"/":        text("text/html", links("/missing", "/1", "/2", "/3", "/4", "/5", "/6")),
		"/missing": http.NotFound, "/1": slow, "/2": slow, "/3": slow, "/4": slow, "/5": slow, "/6": slow,
	})
	r.changed = map[string]any{"per-host": int64(1), "resume": true}
	return w, func() {
		r.Helper()
		ctx, end := context.WithCancel(r.Context())
		defer end()
		asked.Store(0)
		stop.Store(&end)
		if _, _, err := r.run(ctx, w.URL); code(err) != pipeline.ExitUnfinished {
			r.Fatal(err)
		}
		stop.Store(nil)
	}
}

// TestRequestsTakenOutByHand: a crawl whose requests are cancelled, and whose dead letters are discarded, ends, and
// says how many there were.
func TestRequestsTakenOutByHand(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	w, cut := r.begun()
	cut()
	s := r.open()
	waiting := r.ids(s.List(t.Context(), store.Filter{Topic: "crawl.request", Limit: 1}))
	if refused, err := s.Cancel(t.Context(), waiting...); err != nil || len(refused) > 0 || len(waiting) != 1 {
		t.Fatal(err, refused, waiting)
	}
	letters := r.ids(s.Dead(t.Context(), store.DeadFilter{Topic: "crawl.request"}))
	if refused, err := s.Purge(t.Context(), letters...); err != nil || len(refused) > 0 || len(letters) != 1 {
		t.Fatal(err, refused, letters)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	sum, pages, err := r.run(t.Context(), w.URL)
	if err != nil || sum.Stored != 6 || len(pages) != 6 || sum.LeftOut[whyTaken].Count != 2 || sum.Dead != 0 ||
		sum.Discovered != sum.Stored+sum.Duplicate+sum.Excluded {
		t.Errorf("%v, %+v, %d pages", err, sum, len(pages))
	}
	if n := len(w.times("/missing")); n != 1 {
		t.Errorf("what was discarded was asked for %d times", n)
	}
}

// TestALetterOfAnEarlierCrawlDiesAgain: it is not counted in the crawl during which it was replayed, and skipped.
func TestALetterOfAnEarlierCrawlDiesAgain(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	w, cut := r.begun()
	if sum, _, err := r.run(t.Context(), w.URL); code(err) != pipeline.ExitPartly || sum.Stored != 7 {
		t.Fatal(err, sum)
	}
	s := r.open()
	old := r.ids(s.Dead(t.Context(), store.DeadFilter{Topic: "crawl.request"}))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	cut()
	s = r.open()
	if refused, err := s.Replay(t.Context(), "", old...); err != nil || len(refused) > 0 || len(old) != 1 {
		t.Fatal(err, refused, old)
	}
	if refused, err := s.Skip(t.Context(), "by hand", old...); err != nil || len(refused) > 0 {
		t.Fatal(err, refused)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	sum, _, err := r.run(t.Context(), w.URL)
	if code(err) != pipeline.ExitPartly || sum.Stored != 7 || sum.Dead != 1 ||
		sum.Discovered != sum.Stored+sum.Duplicate+sum.Excluded+sum.Dead {
		t.Errorf("%v, %+v", err, sum)
	}
}

// stuckResults is a store whose results cannot be removed.
type stuckResults struct{ store.Results }

var errStuck = errors.New("the results stay")

func (stuckResults) RemoveResults(context.Context, string, int64) (int64, error) { return 0, errStuck }

// TestACrawlAfterOneKilledAtItsEnd: a run is marked as exported, and its process dies before its results are removed.
// The next crawl neither writes nor counts them.
func TestACrawlAfterOneKilledAtItsEnd(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	w, cut := r.begun()
	cut()
	s := r.open()
	p, err := find(s)
	if err != nil {
		t.Fatal(err)
	}
	last, err := load(t.Context(), p, Name)
	if err != nil {
		t.Fatal(err)
	}
	results, end, err := p.results.ScanResults(t.Context(), storeTopic(Name), 0, 100)
	if err != nil || len(results) == 0 {
		t.Fatal(err, results)
	}
	waiting := r.ids(s.List(t.Context(), store.Filter{Topic: "crawl.request"}))
	if _, err := s.Cancel(t.Context(), waiting...); err != nil {
		t.Fatal(err)
	}
	p.results = stuckResults{p.results}
	c := newCrawler(Name, last.ID, Defaults(w.URL), nil)
	if err := settle(t.Context(), p, c, last, &Summary{}, end); !errors.Is(err, errStuck) {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	sum, pages, err := r.run(t.Context(), w.URL)
	if code(err) != pipeline.ExitPartly || sum.Stored != 7 || len(pages) != 7 || sum.Dead != 1 {
		t.Errorf("%v, %+v, %d pages", err, sum, len(pages))
	}
}

// daemon starts a crawl as a daemon does, and returns what ends it.
func (r *rig) daemon(s *sqlite.Store, site string) (end func()) {
	r.Helper()
	matrix, err := policy.NewMatrixOf(nil, Rules())
	if err != nil {
		r.Fatal(err)
	}
	values := map[string]any{"seeds": []string{site}, "scope": ScopeHost, "concurrency": int64(4), "per_host": int64(2),
		"timeout": Defaults().Timeout, "max_bytes": int64(1 << 20), "user_agent": defaultAgent, "allow_private": true,
		"cache": noCache, "out": filepath.Join(r.dir, "pages.jsonl")}
	ctx, stop := context.WithCancel(r.Context())
	made, err := open(ctx, pipeline.Env{Name: Name, Store: s, Logger: slog.New(slog.DiscardHandler), Owner: "test",
		Section: pipeline.NewSection(fields(), values)})
	if err != nil {
		r.Fatal(err)
	}
	d, err := dispatch.New(s, dispatch.Config{Topics: []dispatch.Topic{made.Stages[0].Topic}, Policy: matrix,
		Owner: "test", Logger: slog.New(slog.DiscardHandler), Results: made.Stages[0].Results})
	if err != nil {
		r.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() { _ = d.Run(ctx) })
	work.Go(func() {
		if err := made.Run(ctx); err != nil && ctx.Err() == nil { // else it was ended in the middle of something
			r.Error(err)
		}
	})
	return sync.OnceFunc(func() { stop(); work.Wait() })
}

// TestReplayInADaemonWhoseCrawlHasEnded: the dead letter is for the next crawl, and does not keep that from its end.
func TestReplayInADaemonWhoseCrawlHasEnded(t *testing.T) {
	r := &rig{T: t, dir: t.TempDir()}
	var mended atomic.Bool
	w := newWeb(t, map[string]http.HandlerFunc{
		"/": text("text/html", links("/missing")),
		"/missing": func(rw http.ResponseWriter, q *http.Request) {
			if !mended.Load() {
				http.NotFound(rw, q)
				return
			}
			text("text/html", "here")(rw, q)
		},
	})
	s := r.open()
	defer func() { _ = s.Close() }()
	until := func(what string, is func() bool) {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("not in time: " + what)
			}
		}
	}
	end := r.daemon(s, w.URL)
	defer func() { end() }()
	until("the first crawl", func() bool { return len(r.pages()) == 1 })
	mended.Store(true)
	old := r.ids(s.Dead(t.Context(), store.DeadFilter{}))
	if refused, err := s.Replay(t.Context(), "", old...); err != nil || len(refused) > 0 || len(old) != 1 {
		t.Fatal(err, refused, old)
	}
	delayed := store.Filter{Topic: "crawl.request", State: store.Delayed}
	until("it is given back", func() bool { return len(r.ids(s.List(t.Context(), delayed))) == 1 })
	if n := len(w.times("/missing")); n != 1 {
		t.Errorf("the crawl that has ended asked for it: %d times", n)
	}
	end()
	end = r.daemon(s, w.URL)
	if _, err := s.RunNow(t.Context(), old...); err != nil {
		t.Fatal(err)
	}
	until("the next crawl", func() bool { return len(r.pages()) == 2 })
}

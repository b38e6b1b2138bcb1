package site

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A crawl follows links with plain net/http. It knows nothing of the site but
// its address: what it reaches is what is reachable.
type crawl struct {
	client  *http.Client
	base    string
	queue   chan string
	pending sync.WaitGroup

	mu      sync.Mutex
	seen    map[string]bool
	off     []string // targets that are not paths of this site
	dead    []string // no good answer in five attempts
	strange []string // good answers that are no pages
}

// crawlAll crawls from "/" with some requests at a time.
func crawlAll(t *testing.T, s *Site, workers int) *crawl {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).MaxIdleConnsPerHost = workers
	c := &crawl{client: client, base: server.URL, queue: make(chan string, 100_000), seen: make(map[string]bool)}
	c.follow("/")
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for path := range c.queue {
				c.visit(path)
				c.pending.Done()
			}
		})
	}
	c.pending.Wait()
	close(c.queue)
	running.Wait()
	return c
}

func (c *crawl) follow(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.seen[path] {
		c.seen[path] = true
		c.pending.Add(1)
		c.queue <- path
	}
}

func (c *crawl) note(list *[]string, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*list = append(*list, path)
}

func (c *crawl) visit(path string) {
	body, ok := "", false
	for range 5 {
		if body, ok = c.get(path); ok {
			break
		}
	}
	switch {
	case !ok:
		c.note(&c.dead, path)
		return
	case !strings.Contains(body, "<main"):
		c.note(&c.strange, path)
		return
	}
	for _, target := range attributes(body, "href") {
		target, _, _ = strings.Cut(target, "#")
		if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") {
			c.note(&c.off, target)
			continue
		}
		c.follow(target)
	}
}

func (c *crawl) get(path string) (string, bool) {
	r, err := c.client.Get(c.base + path)
	if err != nil {
		return "", false
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	return string(body), err == nil && r.StatusCode == http.StatusOK
}

// TestReachable crawls sites of several sizes and finds exactly what Paths says.
func TestReachable(t *testing.T) {
	for _, pages := range []int{1, 50, 700} {
		faults := FaultRates{Erroring: 0.02, Reset: 0.01, Truncated: 0.01, Throttled: 0.01, Slow: 0.001, Broken: 3,
			Failing: 2}
		s := open(t, Options{Pages: pages, Seed: uint64(pages), Faults: faults})
		c := crawlAll(t, s, 8)
		reached := make([]string, 0, len(c.seen))
		for path := range c.seen {
			reached = append(reached, path)
		}
		slices.Sort(reached)
		if want := slices.Sorted(s.Paths()); !slices.Equal(reached, want) {
			t.Errorf("%d pages: reached %d, want %d", pages, len(reached), len(want))
		}
		slices.Sort(c.dead)
		slices.Sort(c.strange)
		if !slices.Equal(c.dead, s.Failing()) || !slices.Equal(c.strange, s.Broken()) {
			t.Errorf("%d pages: dead %q, want %q; unreadable %q, want %q", pages, c.dead, s.Failing(), c.strange,
				s.Broken())
		}
		if len(c.off) > 0 {
			t.Errorf("%d pages: links lead off the site: %q", pages, c.off)
		}
		for path := range s.Paths() {
			want := len(s.Plan(path)) + 1
			switch {
			case slices.Contains(s.Failing(), path):
				want = 5
			case slices.Contains(s.Plan(path), FaultSlow):
				want = 1 // late, but good
			}
			if got := s.Requests(path); got != want {
				t.Errorf("%d pages: %d requests for %s, want %d", pages, got, path, want)
			}
		}
		if most := s.MaxConcurrent(); most < 1 || most > 8 {
			t.Errorf("%d pages: %d requests at once, from 8 workers", pages, most)
		}
	}
}

// TestMaxConcurrent holds requests at the site and counts them.
func TestMaxConcurrent(t *testing.T) {
	s := open(t, Options{Pages: 20, Faults: FaultRates{Slow: 1}})
	server := httptest.NewServer(s)
	var asked sync.WaitGroup
	for path := range plans(s) {
		asked.Go(func() {
			if r, err := server.Client().Get(server.URL + path); err == nil {
				r.Body.Close()
			}
		})
	}
	// All are held for 300 ms at least; on a slow machine some may come later.
	asked.Wait()
	server.Close() // waits for the handlers
	if most := s.MaxConcurrent(); most < 2 || most > 19 {
		t.Errorf("%d requests at once, of 19", most)
	}
	if now := s.now; now != 0 {
		t.Errorf("%d requests are still being answered", now)
	}
}

// TestReachableThroughTrouble has every page broken that may be.
func TestReachableThroughTrouble(t *testing.T) {
	s := open(t, Options{Pages: 600, Faults: FaultRates{Broken: 600}})
	c := crawlAll(t, s, 4)
	if len(c.seen) != s.Len() || len(c.strange) != len(s.Broken()) || len(c.strange) < s.Len()/2 {
		t.Errorf("reached %d of %d pages, %d of them unreadable", len(c.seen), s.Len(), len(c.strange))
	}
}

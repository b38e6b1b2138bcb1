package site

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// A Site is safe for concurrent use, and its pages and faults do not change once it is made.
type Site struct {
	seed   uint64
	pages  []*page // "/" first
	byPath map[string]*page
	robots atomic.Uint32

	mu        sync.Mutex
	tally     Tally
	now, most int // requests that are being answered, and the most that ever were at once
}

// New makes a site.
func New(opt Options) *Site {
	s := &Site{seed: opt.Seed, pages: pages(opt.Pages), byPath: make(map[string]*page, opt.Pages)}
	for _, p := range s.pages {
		s.byPath[p.path] = p
	}
	assign(s.pages, opt.Seed, opt.Faults)
	return s
}

// Len returns the number of pages.
func (s *Site) Len() int { return len(s.pages) }

// Paths yields the path of every page, "/" first: exactly those that can be
// reached from "/", the broken and the failing ones included.
func (s *Site) Paths() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range s.pages {
			if !yield(p.path) {
				return
			}
		}
	}
}

// Broken returns the paths of the pages that no parser can read, sorted.
func (s *Site) Broken() []string {
	return s.where(func(p *page) bool { return p.broken })
}

// Failing returns the paths of the pages that always answer 500, sorted.
func (s *Site) Failing() []string {
	return s.where(func(p *page) bool { return p.failing })
}

// Plan returns the faults of the first requests for a path, in order. It is
// empty for a page that is well, and for one that is broken or failing.
func (s *Site) Plan(path string) []Fault {
	if p := s.byPath[path]; p != nil {
		return slices.Clone(p.plan)
	}
	return nil
}

func (s *Site) where(match func(*page) bool) []string {
	var paths []string
	for _, p := range s.pages {
		if match(p) {
			paths = append(paths, p.path)
		}
	}
	slices.Sort(paths)
	return paths
}

// A Tally counts the requests that a site answered, by how it answered. What
// is not a page counts, too, except for /healthz.
type Tally struct {
	Requests    int64 // all of them; the sum of what follows
	Good        int64 // 200 with a whole and readable body; robots.txt included
	NotModified int64 // 304
	Throttled   int64 // 429
	Errors      int64 // 500 and 503 that passed
	Slow        int64 // good, but late
	Resets      int64 // reset in the middle of the body
	Truncated   int64 // shorter than announced
	Broken      int64 // 200 from one of the broken pages
	Failing     int64 // 500 from one of the failing pages
	NotFound    int64 // 404
	Refused     int64 // 405, and any other answer the site did not plan
}

// Tally returns the counts so far. An answer that was read to its end is counted.
func (s *Site) Tally() Tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tally
}

// MaxConcurrent returns the most requests that were being answered at the same
// moment, /healthz not counted. A request counts from its arrival to just
// before the end of its answer; one that the client gave up, until the site
// notices. The number is therefore never more than a patient client had open.
func (s *Site) MaxConcurrent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.most
}

// Requests returns how often a path was asked for, whatever the answer: one of
// [Site.Paths], or "/robots.txt". For any other path it returns 0.
func (s *Site) Requests(path string) int {
	if path == robotsPath {
		return int(s.robots.Load())
	}
	if p := s.byPath[path]; p != nil {
		return int(p.requests.Load())
	}
	return 0
}

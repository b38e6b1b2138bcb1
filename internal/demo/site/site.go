package site

import (
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
)

// A Site is safe for concurrent use, and its pages and faults do not change once it is made.
type Site struct {
	seed   uint64
	pages  []*page // "/" first
	byPath map[string]*page
	robots atomic.Uint32
	tally  tally
	load   gauge
}

// New makes a site.
func New(opt Options) (*Site, error) {
	if err := opt.validate(); err != nil {
		return nil, fmt.Errorf("make site: %w", err)
	}
	s := &Site{seed: opt.Seed, pages: pages(opt.Pages), byPath: make(map[string]*page, opt.Pages)}
	for _, p := range s.pages {
		s.byPath[p.path] = p
	}
	assign(s.pages, opt.Seed, opt.Faults)
	return s, nil
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

package site

import (
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
)

// A Site serves the documentation of one Go installation. It is safe for
// concurrent use, and its pages and faults do not change once it is open.
type Site struct {
	catalogue *catalogue
	shelf     *shelf
	robots    atomic.Uint32
	tally     tally
	load      gauge
}

// Open lists the standard library under goroot, which takes a fraction of a
// second, and plans the faults. Documentation is read later, when a page of
// the package is first asked for. Where goroot has no sources the error wraps
// [ErrNoGoRoot] and says what to do.
func Open(goroot string, opt Options) (*Site, error) {
	if err := opt.validate(); err != nil {
		return nil, fmt.Errorf("open site: %w", err)
	}
	l, err := readListing(goroot)
	if err != nil {
		return nil, fmt.Errorf("open site: %w", err)
	}
	return newSite(l, opt), nil
}

func newSite(l *listing, opt Options) *Site {
	c := newCatalogue(l, opt.Pages)
	c.assign(opt.Seed, opt.Faults)
	return &Site{catalogue: c, shelf: newShelf(c, shelfBytes)}
}

// Version returns the version of the Go installation, as in "go1.26.1".
func (s *Site) Version() string { return s.catalogue.version }

// Len returns the number of pages.
func (s *Site) Len() int { return len(s.catalogue.all) }

// Paths yields the path of every page, "/" first: exactly those that can be
// reached from "/", the broken and the failing ones included.
func (s *Site) Paths() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, p := range s.catalogue.all {
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

// Skipped returns the source files that the site leaves out because this
// program's Go parser cannot read them, sorted. There are none unless the
// installation is newer than the program.
func (s *Site) Skipped() []string { return slices.Clone(s.catalogue.skipped) }

// Plan returns the faults of the first requests for a path, in order. It is
// empty for a page that is well, and for one that is broken or failing.
func (s *Site) Plan(path string) []Fault {
	if p := s.catalogue.byPath[path]; p != nil {
		return slices.Clone(p.plan)
	}
	return nil
}

func (s *Site) where(match func(*page) bool) []string {
	var paths []string
	for _, p := range s.catalogue.all {
		if match(p) {
			paths = append(paths, p.path)
		}
	}
	slices.Sort(paths)
	return paths
}

package site

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// A page is one page of the site. Only its counter changes after Open.
type page struct {
	path   string
	kind   kind
	volume *volume // nil for the index
	name   string  // of the first thing it declares, or of the file
	file   string  // where an entry is declared
	prev   *page
	next   *page
	leaf   bool // the way to no other page leads through this one alone
	trouble
	requests atomic.Uint32
}

// A catalogue is the set of pages, and the way from a name to its page.
type catalogue struct {
	*listing
	all     []*page // in the order of admission
	byPath  map[string]*page
	symbols map[symbol]*page
	members map[*volume]*members
}

// A symbol is a name declared at package level.
type symbol struct{ pkg, name string }

// members are the pages of one package, in the order of the site.
type members struct {
	entries []*page
	sources []*page
}

func packagePath(pkg string) string      { return "/pkg/" + pkg }
func entryPath(pkg, name string) string  { return "/pkg/" + pkg + "/" + name }
func sourcePath(pkg, file string) string { return "/src/" + pkg + "/" + file }

// newCatalogue admits pages until there are limit of them (0: all there are):
// the index, every package, then package by package everything in it. The
// packages that most others import go first, so that a small site is one of
// what people read, and complete where it is not empty.
func newCatalogue(l *listing, limit int) *catalogue {
	c := &catalogue{
		listing: l,
		byPath:  make(map[string]*page),
		symbols: make(map[symbol]*page),
		members: make(map[*volume]*members),
	}
	full := func() bool { return limit > 0 && len(c.all) >= limit }
	c.admit(&page{path: "/", kind: kindIndex})
	popular := slices.Clone(l.packages)
	slices.SortStableFunc(popular, func(a, b *volume) int {
		return cmp.Compare(len(b.importedBy), len(a.importedBy))
	})
	for _, v := range popular {
		if full() {
			break
		}
		c.admit(&page{path: packagePath(v.path), kind: kindPackage, volume: v, name: v.name})
		c.members[v] = new(members)
	}
	for _, v := range popular {
		for _, e := range v.entries {
			if full() {
				break
			}
			c.admitEntry(v, e)
		}
		for _, s := range v.sources {
			if full() {
				break
			}
			if s.size < longestSource {
				p := c.admit(&page{path: sourcePath(v.path, s.name), kind: kindSource, volume: v, name: s.name})
				c.members[v].sources = append(c.members[v].sources, p)
			}
		}
	}
	c.chain()
	return c
}

func (c *catalogue) admit(p *page) *page {
	c.all = append(c.all, p)
	c.byPath[p.path] = p
	return p
}

// admitEntry admits the page of an entry. Of two with one address, which only
// faulty sources have, the first one stays.
func (c *catalogue) admitEntry(v *volume, e entry) {
	path := entryPath(v.path, e.names[0])
	if c.byPath[path] != nil {
		return
	}
	p := c.admit(&page{path: path, kind: e.kind, volume: v, name: e.names[0], file: e.file})
	c.members[v].entries = append(c.members[v].entries, p)
	for _, name := range e.names {
		c.symbols[symbol{v.path, name}] = p
	}
}

// chain ties each page to its neighbours and marks the leaves. From the index
// every package is linked, and from a package all its members: whoever has no
// members can be unreadable without hiding another page.
func (c *catalogue) chain() {
	var last *page
	for _, v := range c.packages {
		p := c.byPath[packagePath(v.path)]
		if p == nil {
			continue
		}
		tie(last, p)
		last = p
		m := c.members[v]
		p.leaf = len(m.entries)+len(m.sources) == 0
		var before *page
		for _, member := range slices.Concat(m.entries, m.sources) {
			tie(before, member)
			before = member
			member.leaf = true
		}
	}
}

// tie makes next the page after prev; either may be nil.
func tie(prev, next *page) {
	if prev != nil && next != nil {
		prev.next, next.prev = next, prev
	}
}

// packageHref returns the address of a package's page, or "" if it has none.
func (c *catalogue) packageHref(pkg string) string {
	if p := c.byPath[packagePath(pkg)]; p != nil {
		return p.path
	}
	return ""
}

// symbolHref returns the address of the documentation of a name, or "".
func (c *catalogue) symbolHref(pkg, name string) string {
	p := c.symbols[symbol{pkg, name}]
	switch {
	case p == nil:
		return ""
	case p.kind == kindConst || p.kind == kindVar:
		return p.path + "#" + name
	}
	return p.path
}

// methodHref returns the address of the documentation of a method; that of
// its type where the method is part of the type's declaration.
func (c *catalogue) methodHref(pkg, typ, method string) string {
	p := c.symbols[symbol{pkg, typ}]
	switch {
	case p == nil:
		return ""
	case p.volume.methods[typ+"."+method]:
		return p.path + "#" + typ + "." + method
	}
	return p.path
}

// sourceHref returns the address of a file, or "".
func (c *catalogue) sourceHref(pkg, file string) string {
	if p := c.byPath[sourcePath(pkg, file)]; p != nil {
		return p.path
	}
	return ""
}

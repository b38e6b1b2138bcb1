package site

import (
	"container/list"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// shelfBytes bounds the documentation that a site keeps. All of a Go 1.26
// fits, so that in practice a package is read once.
const shelfBytes = 32 << 20

// A shelf keeps the sheets of the packages that were asked for, up to a limit
// in bytes; what was not used for longest goes first. Safe for concurrent use.
type shelf struct {
	catalogue *catalogue
	limit     int

	mu     sync.Mutex
	used   int
	books  map[*volume]*book
	recent list.List // of *book, the last one used in front
}

// A book is the documentation of one package. It is bound once, by the first
// who asks, while the others wait.
type book struct {
	volume *volume
	bind   sync.Once
	sheets map[*page]sheet
	err    error
	size   int // 0 until bound; guarded by the shelf's mutex
	place  *list.Element
}

func newShelf(c *catalogue, limit int) *shelf {
	return &shelf{catalogue: c, limit: limit, books: make(map[*volume]*book)}
}

// sheet returns the sheet of a package's page or of an entry's.
func (s *shelf) sheet(p *page) (sheet, error) {
	b := s.take(p.volume)
	b.bind.Do(func() {
		b.sheets, b.err = bind(s.catalogue, b.volume)
		s.put(b)
	})
	if b.err != nil {
		return sheet{}, b.err
	}
	found, ok := b.sheets[p]
	if !ok {
		return sheet{}, fmt.Errorf("render %s: its declaration is gone from the sources", p.path)
	}
	return found, nil
}

// take returns the book of a volume, bound or yet to be.
func (s *shelf) take(v *volume) *book {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.books[v]
	if b == nil {
		b = &book{volume: v}
		b.place = s.recent.PushFront(b)
		s.books[v] = b
		return b
	}
	s.recent.MoveToFront(b.place)
	return b
}

// put enters the size of a book just bound and makes room for it. A book that
// could not be bound is forgotten: the next one who asks tries again.
func (s *shelf) put(b *book) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.err != nil {
		s.drop(b)
		return
	}
	for _, sheet := range b.sheets {
		b.size += len(sheet.main) + len(sheet.title) + len(sheet.description)
	}
	s.used += b.size
	for e := s.recent.Back(); e != nil && s.used > s.limit; {
		old := e.Value.(*book)
		e = e.Prev()
		if old != b && old.size > 0 {
			s.drop(old)
		}
	}
}

func (s *shelf) drop(b *book) {
	s.recent.Remove(b.place)
	delete(s.books, b.volume)
	s.used -= b.size
}

// body returns the whole page.
func (s *Site) body(p *page) ([]byte, error) {
	var own sheet
	var err error
	switch p.kind {
	case kindIndex:
		own = indexSheet(s.catalogue)
	case kindSource:
		var text []byte
		if text, err = os.ReadFile(filepath.Join(p.volume.dir, p.name)); err == nil {
			own = sourceSheet(s.catalogue, p, text)
		}
	default:
		own, err = s.shelf.sheet(p)
	}
	if err != nil {
		return nil, err
	}
	return s.catalogue.frame(p, own), nil
}

package site

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestShelfIsBounded asks for packages until the first ones have to go, by
// many at once.
func TestShelfIsBounded(t *testing.T) {
	s := open(t, Options{Pages: 1500})
	const limit = 300_000
	s.shelf = newShelf(s.catalogue, limit)
	var readers sync.WaitGroup
	for i := range 4 {
		readers.Go(func() {
			for j := range 80 {
				p := s.catalogue.all[1+(i*37+j)%180]
				if p.kind == kindSource {
					continue
				}
				if _, err := s.body(p); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
	used, largest := 0, 0
	for _, b := range s.shelf.books {
		used += b.size
		largest = max(largest, b.size)
	}
	if used != s.shelf.used || s.shelf.recent.Len() != len(s.shelf.books) {
		t.Errorf("%d bytes in %d books, but the shelf says %d in %d", used, len(s.shelf.books), s.shelf.used, s.shelf.recent.Len())
	}
	if used > limit && len(s.shelf.books) > 1 {
		t.Errorf("%d bytes in %d books, want at most %d", used, len(s.shelf.books), limit)
	}
	if len(s.shelf.books) < 2 || largest == 0 {
		t.Errorf("%d books, the largest of %d bytes", len(s.shelf.books), largest)
	}
}

// TestShelfReadsOnce shows that what fits is kept, and the last used longest.
func TestShelfReadsOnce(t *testing.T) {
	s := openAt(t, smallRoot(t, zoo), Options{})
	body := func(path string) {
		if w := answer(s, "GET", path, nil); w.Code != 200 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	body("/pkg/io")
	io := s.shelf.books[s.catalogue.byPath["/pkg/io"].volume]
	body("/pkg/fmt")
	body("/pkg/io/Writer")
	if s.shelf.books[io.volume] != io {
		t.Error("a package was read twice")
	}
	s.shelf.limit = s.shelf.used
	body("/pkg/net/http/cmd/server")
	if s.shelf.books[io.volume] != io || len(s.shelf.books) != 2 {
		t.Errorf("%d books after the limit, want io and server", len(s.shelf.books))
	}
}

// TestSourcesChange takes the sources away and brings them back.
func TestSourcesChange(t *testing.T) {
	root := smallRoot(t, zoo)
	s := openAt(t, root, Options{})
	file := filepath.Join(root, "src", "io", "io.go")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/pkg/io", "/pkg/io/Writer", "/src/io/io.go"} {
		if w := answer(s, "GET", path, nil); w.Code != 500 || !strings.Contains(w.Body.String(), "io.go") {
			t.Errorf("%s without its source: %d %s", path, w.Code, w.Body)
		}
	}
	write(t, file, "package io\n")
	if w := answer(s, "GET", "/pkg/io/Writer", nil); w.Code != 500 || !strings.Contains(w.Body.String(), "gone from the sources") {
		t.Errorf("a page without its declaration: %d %s", w.Code, w.Body)
	}
	if w := answer(s, "GET", "/pkg/io", nil); w.Code != 200 {
		t.Errorf("the package is back: %d %s", w.Code, w.Body)
	}
	if got, want := s.Tally(), (Tally{Requests: 5, Good: 1, Refused: 4}); got != want {
		t.Errorf("tally %+v, want %+v", got, want)
	}
}

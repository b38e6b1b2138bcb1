package sqlstore

import (
	"cmp"
	"iter"
	"math"

	"github.com/pawl-dev/pawl/store"
)

// Letter is a dead letter and its number, in the order of dying from 1 on.
type Letter struct {
	store.Record
	Number int64
}

// ListDead yields the dead letters that f asks for. page returns, by number, up to limit of
// those with a number above after, in pages of size: those that f asks for but for its text
// and facts if they are chosen, else all of its topic.
func ListDead(f store.DeadFilter, size int, chosen bool, page func(after int64, limit int) ([]Letter, error),
) iter.Seq2[store.Record, error] {
	matches := f.Matches
	if chosen {
		matches = f.MatchesText
	}
	return func(yield func(store.Record, error) bool) {
		left, after := cmp.Or(f.Limit, math.MaxInt), int64(0)
		pages := Pages{Most: size, Whole: !f.Brief}
		for {
			limit := pages.Size()
			if chosen && !f.Searches() {
				limit = min(limit, left)
			}
			letters, err := page(after, limit)
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			for _, l := range letters {
				if after = l.Number; !matches(&l.Record) {
					continue
				}
				if f.Shorten(&l.Record); !yield(l.Record, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
			if len(letters) < limit {
				return
			}
			for i := range letters {
				pages.Read(&letters[i].Record)
			}
		}
	}
}

// Pages says how many records a page of a list has. A page is in memory at once: if the messages are read whole, the
// first page is small, and each further one has as many as the bodies of the one before allow.
type Pages struct {
	Most  int
	Whole bool

	size, bytes int
}

const (
	firstPage = 8
	pageBytes = 8 << 20
)

// Size is how many the next page may have.
func (p *Pages) Size() int {
	switch {
	case !p.Whole:
		return p.Most
	case p.size == 0:
		p.size = min(firstPage, p.Most)
	default:
		p.size = max(1, min(p.Most, 4*p.size, p.size*pageBytes/max(p.bytes, 1)))
	}
	p.bytes = 0
	return p.size
}

// Chunk cuts what is to be read into pages.
func Chunk[T any](all []T, p *Pages) iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		for len(all) > 0 {
			n := min(len(all), p.Size())
			if !yield(all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

// Read counts a record of the page.
func (p *Pages) Read(r *store.Record) { p.bytes += r.Size() }

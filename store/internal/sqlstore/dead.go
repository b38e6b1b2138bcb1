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
		for {
			limit := size
			if chosen && !f.Searches() {
				limit = min(size, left)
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
		}
	}
}

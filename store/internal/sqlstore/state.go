package sqlstore

import (
	"iter"

	"github.com/pawl-dev/pawl/store"
)

// entryPage bounds the entries of a page: they may be large.
const entryPage = 100

// ListEntries yields the entries whose key begins with prefix and whose version
// is above after. page returns, by version, those with from <= key < end and a
// version above after, up to limit.
func ListEntries(prefix string, after int64, page func(from, end []byte, after int64, limit int) ([]store.Entry,
	error)) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		// No byte of a text is 0xff: that is behind everything with the prefix.
		from, end := []byte(prefix), append([]byte(prefix), 0xff)
		for {
			entries, err := page(from, end, after, entryPage)
			if err != nil {
				yield(store.Entry{}, err)
				return
			}
			for _, e := range entries {
				if after = e.Version; !yield(e, nil) {
					return
				}
			}
			if len(entries) < entryPage {
				return
			}
		}
	}
}

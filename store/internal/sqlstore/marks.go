package sqlstore

import (
	"iter"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// MarkPage bounds a page of marks: how many, and about how many bytes of values.
const (
	MarkPage      = 1000
	MarkPageBytes = 16 << 20
)

// ListMarks yields the marks of a scope whose key begins with prefix. page
// returns, by key, those with from <= key and, unless end is empty, key < end: as
// many as fit into a page, and one at least if there is one.
func ListMarks(scope, prefix string, page func(from, end []byte) ([]store.Marked,
	error)) iter.Seq2[store.Marked, error] {
	return func(yield func(store.Marked, error) bool) {
		if err := backend.AdmitScope("list marks", scope); err != nil {
			yield(store.Marked{}, err)
			return
		}
		from, end := []byte(prefix), []byte(backend.PrefixEnd(prefix))
		for {
			marks, err := page(from, end)
			if err != nil {
				yield(store.Marked{}, err)
				return
			}
			size := 0
			for _, m := range marks {
				size += len(m.Value)
				if !yield(m, nil) {
					return
				}
			}
			if len(marks) < MarkPage && size < MarkPageBytes {
				return
			}
			from = append([]byte(marks[len(marks)-1].Key), 0) // what comes next at the earliest
		}
	}
}

package operate

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/store"
)

// Part is which part of a list is asked for.
type Part struct {
	From   int64 // Next of the part before; 0: the first one
	Limit  int   // 0: all
	Looks  int   // how many entries to look at, at most; 0: all, however large
	Newest bool  // the newest first
}

// Page is a part of a list.
type Page[T any] struct {
	Items  []T
	Next   int64 // where the list goes on; 0: it does not
	Looked int   // how many entries were looked at, if it ends for that reason
}

// mostPageBytes is how much a part with a bound has at most, but for its last entry.
const mostPageBytes = 16 << 20

// errEnough ends a list.
var errEnough = errors.New("enough")

// PageOf reads a part of the entries with a prefix, in the order of their versions. pick says which of them are in the
// list; errEnough ends it.
func PageOf[T any](ctx context.Context, state store.Shared, prefix string, part Part,
	pick func(*store.Entry) (item T, take bool, err error)) (p Page[T], err error) {
	entries := state.ListState
	if part.Newest {
		entries = state.LatestState
	}
	p.Items = []T{}
	last, looked, bytes := part.From, 0, 0
	for e, err := range entries(ctx, prefix, part.From) {
		if err != nil {
			return p, err
		}
		item, take, err := pick(&e)
		switch {
		case errors.Is(err, errEnough):
			return p, nil
		case err != nil:
			return p, err
		case take && part.Limit > 0 && len(p.Items) == part.Limit, part.Looks > 0 && bytes > mostPageBytes:
			p.Next = last
			return p, nil
		case part.Looks > 0 && looked == part.Looks:
			p.Next, p.Looked = last, looked
			return p, nil
		}
		if last, looked = e.Version, looked+1; take {
			p.Items, bytes = append(p.Items, item), bytes+len(e.Value)
		}
	}
	return p, nil
}

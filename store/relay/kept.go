package relay

import (
	"context"
	"iter"
	"strings"

	"github.com/pawl-dev/pawl/store"
)

// Kept yields what is in the side store, dead letters too, as it was when it was
// appended. It is for callers that need every message of the store (codec.Keeper): the
// log's listings do not show these.
func (s *Store) Kept(ctx context.Context) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		looker, canList := store.As[store.Looker](s.side)
		letters, canDead := store.As[store.DeadLetters](s.side)
		if !canList || !canDead {
			yield(store.Record{}, &store.Error{Op: "list the side store", Code: store.ErrUnsupported})
			return
		}
		// Live ones first: what dies meanwhile is seen among the dead.
		for _, records := range []iter.Seq2[store.Record, error]{
			looker.List(ctx, store.Filter{}), letters.Dead(ctx, store.DeadFilter{}),
		} {
			for r, err := range records {
				name, ours := strings.CutPrefix(r.Topic, s.cfg.Prefix)
				if err == nil && !ours {
					continue // of others
				}
				r.Topic = name
				if !yield(r, err) || err != nil {
					return
				}
			}
		}
	}
}

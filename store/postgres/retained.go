package postgres

import (
	"context"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// listAcked yields the messages that topics retain.
func (s *inspector) listAcked(ctx context.Context, topic int32, f store.Filter, yield func(store.Record, error) bool) {
	type acked struct {
		store.Record
		now, seq int64
	}
	after, given, pages := acked{}, 0, sqlstore.Pages{Most: recordPage, Whole: true}
	for {
		var page []acked
		limit := pages.Size()
		err := s.cold(ctx, "list", func(ctx context.Context, t *tx) (err error) {
			page, err = query(ctx, t, func(r row) (acked, error) {
				rec, err := s.readAcked(r)
				return acked{rec, r.micros(15), r.int8(16)}, err
			}, listAcked, int4Value(topic), bytesValue(f.Key), s.skewValue(), int8Value(int64(limit)),
				textValue(after.Topic), int8Value(after.Rank), int8Value(after.seq))
			return err
		})
		if err != nil {
			yield(store.Record{}, err)
			return
		}
		for _, a := range page {
			pages.Read(&a.Record)
			if f.OlderThan > 0 && a.now-a.EnqueuedAt.UnixMicro() <= f.OlderThan.Microseconds() {
				continue
			}
			given++
			if !yield(a.Record, nil) || given == f.Limit {
				return
			}
		}
		if len(page) < limit {
			return
		}
		after = page[len(page)-1]
	}
}

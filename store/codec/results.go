package codec

import (
	"context"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// results are the Results of a store that has them.
type results struct {
	layer
	of store.Results
}

// ScanResults implements [store.Results]. A result that cannot be decoded stays as it
// is stored, with [SealedHeader].
func (l *results) ScanResults(ctx context.Context, topic string, after int64, limit int) ([]store.Result,
	int64, error) {
	found, next, err := l.of.ScanResults(ctx, topic, after, limit)
	if err != nil {
		return nil, after, err
	}
	size := 0
	for i := range found {
		r := store.Record{Message: found[i].Message}
		if err := l.open(ctx, &r); err != nil {
			return nil, after, err
		}
		found[i].Message = r.Message
		if size += r.Size(); size > backend.ResultBytes && i > 0 {
			return found[:i], found[i-1].Cursor, nil
		}
	}
	return found, next, nil
}

// RemoveResults implements [store.Results].
func (l *results) RemoveResults(ctx context.Context, topic string, upTo int64) (int64, error) {
	return l.of.RemoveResults(ctx, topic, upTo)
}

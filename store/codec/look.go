package codec

import (
	"context"
	"iter"
	"maps"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// inspector is the Inspector of a store that has one: it decodes what that shows.
type inspector struct {
	layer
	store.Inspector
}

// Get implements [store.Inspector].
func (i *inspector) Get(ctx context.Context, id string) (store.Record, error) {
	r, err := i.Inspector.Get(ctx, id)
	if err == nil {
		err = i.open(ctx, &r)
	}
	return r, err
}

// List implements [store.Inspector].
func (i *inspector) List(ctx context.Context, f store.Filter) iter.Seq2[store.Record, error] {
	return i.opened(ctx, i.Inspector.List(ctx, f))
}

// Show returns a record of the store that the codec wraps as the codec's own listings
// do: for one that was found there in another way. One that cannot be decoded stays
// as it is stored, with [SealedHeader].
func (s *Store) Show(ctx context.Context, r store.Record) (store.Record, error) {
	err := s.open(ctx, &r)
	return r, err
}

// opened decodes what a listing yields.
func (s *Store) opened(ctx context.Context, records iter.Seq2[store.Record, error]) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for r, err := range records {
			if err == nil {
				err = s.open(ctx, &r)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// open decodes a record. One that cannot be decoded is sealed: it stays as it is
// stored, and a header says why. So a listing goes on, and nothing is lost that is
// exported and imported again.
func (s *Store) open(ctx context.Context, r *store.Record) error {
	err := s.decode.decode(ctx, &r.Message)
	if err == nil {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return &store.Error{Op: "decode", Err: err}
	}
	r.Headers = maps.Clone(r.Headers)
	r.Headers[SealedHeader] = store.Text(err.Error())
	return nil
}

// isSealed tells a message that [Store.open] could not decode.
func isSealed(m *pawl.Message) bool {
	_, sealed := m.Headers[SealedHeader]
	_, encoded := m.Headers[Header]
	return sealed && encoded
}

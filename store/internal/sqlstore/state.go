package sqlstore

import (
	"bytes"
	"context"
	"iter"
	"math"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// entryPage bounds the entries of a page: they may be large.
const entryPage = 100

// EntryTable is where a store keeps its entries.
type EntryTable struct {
	// Get returns an entry; one of version 0 is not there.
	Get func(ctx context.Context, op, key string) (store.Entry, error)
	// Page returns, by version, up to limit of those with from <= key < end and a version above than; down: below it,
	// the highest first.
	Page func(ctx context.Context, op string, from, end []byte, than int64, down bool, limit int) ([]store.Entry, error)
	// Change stores, under the next version and at the store's time, what becomes of an entry; nil removes it. have is
	// its version, 0 if it is not there. Nobody else changes entries meanwhile. If become fails, nothing changes.
	Change func(ctx context.Context, op, key string, become func(have int64) (*store.Entry, error)) error
}

// Entries implements the entries of [store.Shared].
type Entries struct{ table EntryTable }

// NewEntries returns the entries in a table.
func NewEntries(table EntryTable) *Entries { return &Entries{table} }

func noEntry(op, key string) error { return &store.Error{Op: op + " " + key, Code: store.ErrNotFound} }

// GetState implements [store.Shared].
func (s *Entries) GetState(ctx context.Context, key string) (store.Entry, error) {
	if err := backend.AdmitState(key); err != nil {
		return store.Entry{}, err
	}
	e, err := s.table.Get(ctx, "get state", key)
	if err == nil && e.Version == 0 {
		err = noEntry("state", key)
	}
	return e, err
}

// PutState implements [store.Shared].
func (s *Entries) PutState(ctx context.Context, key string, value []byte, version int64,
	writer string) (put store.Entry, err error) {
	if err := backend.AdmitPut(key, value, version); err != nil {
		return store.Entry{}, err
	}
	err = s.table.Change(ctx, "put state", key, func(have int64) (*store.Entry, error) {
		put = store.Entry{Key: key, Value: append([]byte{}, value...), Writer: store.Text(writer)}
		return &put, backend.PutConflict("put state", key, have, version)
	})
	if err != nil {
		return store.Entry{}, err
	}
	put.Value = bytes.Clone(value)
	return put, nil
}

// DeleteState implements [store.Shared].
func (s *Entries) DeleteState(ctx context.Context, key string, version int64) error {
	if err := backend.AdmitDelete(key, version); err != nil {
		return err
	}
	return s.table.Change(ctx, "delete state", key, func(have int64) (*store.Entry, error) {
		if have == 0 {
			return nil, noEntry("delete state", key)
		}
		return nil, backend.PutConflict("delete state", key, have, version)
	})
}

// ListState implements [store.Shared].
func (s *Entries) ListState(ctx context.Context, prefix string, after int64) iter.Seq2[store.Entry, error] {
	return s.list(ctx, prefix, after, false)
}

// LatestState implements [store.Shared].
func (s *Entries) LatestState(ctx context.Context, prefix string, before int64) iter.Seq2[store.Entry, error] {
	if before == 0 {
		before = math.MaxInt64
	}
	return s.list(ctx, prefix, before, true)
}

func (s *Entries) list(ctx context.Context, prefix string, than int64, down bool) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		// No byte of a text is 0xff: that is behind everything with the prefix.
		from, end := []byte(prefix), append([]byte(prefix), 0xff)
		for {
			entries, err := s.table.Page(ctx, "list state", from, end, than, down, entryPage)
			if err != nil {
				yield(store.Entry{}, err)
				return
			}
			for _, e := range entries {
				if than = e.Version; !yield(e, nil) {
					return
				}
			}
			if len(entries) < entryPage {
				return
			}
		}
	}
}

package memory

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// side is what processes share beside messages: entries, marks and rates.
type side struct{ *core }

// GetState implements [store.Shared].
func (s *side) GetState(ctx context.Context, key string) (store.Entry, error) {
	if err := backend.AdmitState(key); err != nil {
		return store.Entry{}, err
	}
	if _, err := s.enter(ctx, "get state"); err != nil {
		return store.Entry{}, err
	}
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	if !ok {
		return store.Entry{}, &store.Error{Op: "state " + key, Code: store.ErrNotFound}
	}
	return ownEntry(e), nil
}

// ownEntry is a copy of e that shares nothing with it.
func ownEntry(e store.Entry) store.Entry {
	e.Value = bytes.Clone(e.Value)
	return e
}

// PutState implements [store.Shared].
func (s *side) PutState(ctx context.Context, key string, value []byte, version int64,
	writer string) (store.Entry, error) {
	if err := backend.AdmitPut(key, value, version); err != nil {
		return store.Entry{}, err
	}
	now, err := s.enter(ctx, "put state")
	if err != nil {
		return store.Entry{}, err
	}
	defer s.mu.Unlock()
	if err := backend.PutConflict("put state", key, s.entries[key].Version, version); err != nil {
		return store.Entry{}, err
	}
	s.revision++
	e := store.Entry{Key: key, Value: value, Version: s.revision, Writer: store.Text(writer), At: now}
	s.entries[key] = ownEntry(e)
	return ownEntry(e), nil
}

// DeleteState implements [store.Shared].
func (s *side) DeleteState(ctx context.Context, key string, version int64) error {
	if err := backend.AdmitDelete(key, version); err != nil {
		return err
	}
	if _, err := s.enter(ctx, "delete state"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	e, ok := s.entries[key]
	if !ok {
		return &store.Error{Op: "delete state " + key, Code: store.ErrNotFound}
	}
	if err := backend.PutConflict("delete state", key, e.Version, version); err != nil {
		return err
	}
	s.revision++
	delete(s.entries, key)
	return nil
}

// ListState implements [store.Shared]. It yields what there is when it begins.
func (s *side) ListState(ctx context.Context, prefix string, after int64) iter.Seq2[store.Entry, error] {
	return s.listState(ctx, prefix, func(e store.Entry) bool { return e.Version > after }, 1)
}

// LatestState implements [store.Shared]. It yields what there is when it begins.
func (s *side) LatestState(ctx context.Context, prefix string, before int64) iter.Seq2[store.Entry, error] {
	return s.listState(ctx, prefix, func(e store.Entry) bool { return before == 0 || e.Version < before }, -1)
}

// listState yields the entries with the prefix that are in it, by version: 1 up, -1 down.
func (s *side) listState(ctx context.Context, prefix string, in func(store.Entry) bool,
	order int) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		if _, err := s.enter(ctx, "list state"); err != nil {
			yield(store.Entry{}, err)
			return
		}
		var found []store.Entry
		for key, e := range s.entries {
			if strings.HasPrefix(key, prefix) && in(e) {
				found = append(found, e)
			}
		}
		s.mu.Unlock()
		slices.SortFunc(found, func(a, b store.Entry) int { return order * cmp.Compare(a.Version, b.Version) })
		for _, e := range found {
			if !yield(ownEntry(e), nil) {
				return
			}
		}
	}
}

// Clock implements [store.Shared].
func (s *side) Clock(ctx context.Context) (time.Time, error) {
	now, err := s.enter(ctx, "clock")
	if err == nil {
		s.mu.Unlock()
	}
	return now, err
}

package memory

import (
	"bytes"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// marks are the marks of all scopes, by scope and key.
type marks struct {
	scopes map[string]map[string]store.Marked
	n      int
	prune  int // at so many, what has expired is looked for
}

// minPrune keeps small stores from looking for what has expired all the time.
const minPrune = 1024

// find returns a mark that is there and has not expired.
func (ms *marks) find(now time.Time, scope, key string) (store.Marked, bool) {
	m, ok := ms.scopes[scope][key]
	return m, ok && (m.Until.IsZero() || m.Until.After(now))
}

func (ms *marks) put(m store.Marked) {
	of := ms.scopes[m.Scope]
	if of == nil {
		of = map[string]store.Marked{}
		ms.scopes[m.Scope] = of
	}
	if _, there := of[m.Key]; !there {
		ms.n++
	}
	of[m.Key] = m
}

func (ms *marks) remove(scope, key string) {
	of := ms.scopes[scope]
	if _, there := of[key]; !there {
		return
	}
	ms.n--
	delete(of, key)
	if len(of) == 0 {
		delete(ms.scopes, scope)
	}
}

// tidy removes expired marks, whenever there are twice as many as were left last time.
func (ms *marks) tidy(now time.Time) {
	if ms.n < max(ms.prune, minPrune) {
		return
	}
	for scope, of := range ms.scopes {
		for key, m := range of {
			if !m.Until.IsZero() && !m.Until.After(now) {
				ms.remove(scope, key)
			}
		}
	}
	ms.prune = 2 * ms.n
}

// apply writes one mark if what is there allows it.
func (ms *marks) apply(now time.Time, m *pawl.Mark, version int64) bool {
	have, there := ms.find(now, m.Scope, m.Key)
	if m.If == 0 && there || m.If > 0 && !(there && have.Version == m.If) || m.Remove && !there {
		return false
	}
	if m.Remove {
		ms.remove(m.Scope, m.Key)
		return true
	}
	put := store.Marked{Scope: m.Scope, Key: m.Key, Value: bytes.Clone(m.Value), Version: version}
	if m.For > 0 {
		put.Until = now.Add(m.For)
	}
	ms.put(put)
	return true
}

// PutMarks implements [store.Shared].
func (s *side) PutMarks(ctx context.Context, marks ...pawl.Mark) ([]store.MarkReceipt, error) {
	receipts, err := backend.AdmitMarks(marks)
	if err != nil {
		return nil, err
	}
	now, err := s.enter(ctx, "put marks")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for i := range marks {
		r := &receipts[i]
		if r.Put = r.Err == nil && s.marks.apply(now, &marks[i], r.Version); !r.Put {
			r.Version = 0
		}
	}
	s.marks.tidy(now)
	return receipts, nil
}

// GetMarks implements [store.Shared].
func (s *side) GetMarks(ctx context.Context, scope string, keys ...string) (map[string]store.Marked, error) {
	if err := backend.AdmitScope("get marks", scope, keys...); err != nil {
		return nil, err
	}
	now, err := s.enter(ctx, "get marks")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	found, size := map[string]store.Marked{}, 0
	for _, key := range keys {
		m, there := s.marks.find(now, scope, key)
		if _, again := found[key]; !there || again {
			continue
		}
		if size += len(m.Value); size > store.MaxBatchBytes {
			return nil, backend.MarksTooLarge()
		}
		found[key] = ownMark(m)
	}
	return found, nil
}

func ownMark(m store.Marked) store.Marked {
	m.Value = bytes.Clone(m.Value)
	return m
}

// ListMarks implements [store.Shared]. It yields the keys that there are when it
// begins.
func (s *side) ListMarks(ctx context.Context, scope, prefix string) iter.Seq2[store.Marked, error] {
	return func(yield func(store.Marked, error) bool) {
		err := backend.AdmitScope("list marks", scope)
		var keys []string
		if err == nil {
			keys, err = s.markKeys(ctx, scope, prefix)
		}
		if err != nil {
			yield(store.Marked{}, err)
			return
		}
		for _, key := range keys {
			now, err := s.enter(ctx, "list marks")
			if err != nil {
				yield(store.Marked{}, err)
				return
			}
			m, there := s.marks.find(now, scope, key)
			m = ownMark(m)
			s.mu.Unlock()
			if there && !yield(m, nil) {
				return
			}
		}
	}
}

func (s *side) markKeys(ctx context.Context, scope, prefix string) ([]string, error) {
	if _, err := s.enter(ctx, "list marks"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	keys := slices.Sorted(maps.Keys(s.marks.scopes[scope]))
	return slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, prefix) }), nil
}

// Forget implements [store.Shared].
func (s *side) Forget(ctx context.Context, scope string) error {
	if err := backend.AdmitScope("forget", scope); err != nil {
		return err
	}
	if _, err := s.enter(ctx, "forget"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	s.marks.n -= len(s.marks.scopes[scope])
	delete(s.marks.scopes, scope)
	named := uniqueScope(&pawl.Message{Unique: pawl.Unique{Scope: scope}})
	maps.DeleteFunc(s.uniques, func(k uniqueKey, _ unique) bool { return k.scope == named })
	return nil
}

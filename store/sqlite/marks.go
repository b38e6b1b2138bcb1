package sqlite

import (
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

const (
	putMark = `INSERT INTO pawl_mark (scope, key, version, until, value) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (scope, key) DO UPDATE SET version = excluded.version, until = excluded.until, value = excluded.value
		WHERE ?6 = -1 OR until <= ?7`
	swapMark = `UPDATE pawl_mark SET version = ?3, until = ?4, value = ?5
		WHERE scope = ?1 AND key = ?2 AND version = ?6 AND (until IS NULL OR until > ?7)`
	removeMark = `DELETE FROM pawl_mark WHERE scope = ?1 AND key = ?2 AND (?3 = -1 OR version = ?3) AND (until IS NULL OR until > ?4)`
	selectMark = `SELECT key, version, until, value FROM pawl_mark WHERE scope = ?1 AND key = ?2 AND (until IS NULL OR until > ?3)`
	// marksPart is how many keys selectMarks looks for at once. A query for each of them takes several times as long.
	marksPart = 100
	// fewMarks is up to how many keys a query for each is quicker all the same.
	fewMarks = 4
	markPage = `SELECT key, version, until, value FROM (
			SELECT key, version, until, value, sum(length(value)) OVER (ORDER BY key) - length(value) AS before FROM (
				SELECT key, version, until, value FROM pawl_mark
				WHERE scope = ?1 AND key >= ?2 AND (?3 = x'' OR key < ?3) AND (until IS NULL OR until > ?4) ORDER BY key LIMIT ?5))
		WHERE before < ?6 ORDER BY key`
	forgetMarks   = `DELETE FROM pawl_mark WHERE n IN (SELECT n FROM pawl_mark WHERE scope = ? LIMIT 1000)`
	forgetUniques = `DELETE FROM pawl_uniq WHERE ukey IN (SELECT ukey FROM pawl_uniq WHERE ukey >= ? AND ukey < ? LIMIT 1000)`
	// forgetPart is how many rows those remove.
	forgetPart = 1000
)

// PutMarks implements [store.Shared].
func (s *side) PutMarks(ctx context.Context, marks ...pawl.Mark) ([]store.MarkReceipt, error) {
	admitted, err := backend.AdmitMarks(marks)
	if err != nil {
		return nil, err
	}
	receipts := make([]store.MarkReceipt, len(marks))
	err = s.write(ctx, &call{op: "put marks", phase: toManage, weight: weighMarks(marks), do: func(k *work) error {
		copy(receipts, admitted) // do may run twice
		for i := range marks {
			r := &receipts[i]
			if r.Err == nil {
				if err := k.putMark(&marks[i], r); err != nil {
					return err
				}
			}
			if !r.Put {
				r.Version = 0
			}
		}
		return nil
	}})
	return receipts, err
}

// weighMarks is what writing marks costs, in the unit of weigh.
func weighMarks(marks []pawl.Mark) int {
	n := len(marks)
	for i := range marks {
		n += len(marks[i].Value) / perWeight
	}
	return n
}

// putMark writes or removes one mark, if what is there allows it.
func (k *work) putMark(m *pawl.Mark, r *store.MarkReceipt) error {
	scope, key := []byte(m.Scope), []byte(m.Key)
	var until any
	if m.For > 0 {
		until = k.now + micros(m.For)
	}
	var changed int64
	var err error
	switch {
	case m.Remove:
		changed, err = k.db.exec(removeMark, scope, key, m.If, k.now)
	case m.If > 0:
		changed, err = k.db.exec(swapMark, scope, key, r.Version, until, valueOf(m), m.If, k.now)
	default:
		changed, err = k.db.exec(putMark, scope, key, r.Version, until, valueOf(m), m.If, k.now)
	}
	r.Put = changed > 0
	return err
}

// valueOf is never nil: that would be NULL.
func valueOf(m *pawl.Mark) []byte {
	if m.Value == nil {
		return []byte{}
	}
	return m.Value
}

func readMark(scope string, r row) store.Marked {
	m := store.Marked{Scope: scope, Key: string(r.bytes(0)), Version: r.int(1), Value: append([]byte{}, r.bytes(3)...)}
	if r[2] != nil {
		m.Until = moment(r.int(2))
	}
	return m
}

// GetMarks implements [store.Shared].
func (s *side) GetMarks(ctx context.Context, scope string, keys ...string) (map[string]store.Marked, error) {
	if err := backend.AdmitScope("get marks", scope, keys...); err != nil {
		return nil, err
	}
	var found map[string]store.Marked
	err := s.inspector.peek(ctx, "get marks", func(k *work) error {
		found = make(map[string]store.Marked, len(keys))
		size := 0
		take := func(r row) error {
			m := readMark(scope, r)
			if _, again := found[m.Key]; again {
				return nil
			}
			if size += len(m.Value); size > store.MaxBatchBytes {
				return backend.MarksTooLarge()
			}
			found[m.Key] = m
			return nil
		}
		if len(keys) <= fewMarks {
			for _, key := range keys {
				if err := k.db.query(selectMark, take, []byte(scope), []byte(key), k.now); err != nil {
					return err
				}
			}
			return nil
		}
		for part := range slices.Chunk(keys, marksPart) {
			args := make([]any, 0, marksPart+2)
			args = append(args, []byte(scope), k.now)
			for i := range marksPart {
				args = append(args, []byte(part[min(i, len(part)-1)])) // the last one again fills it up
			}
			if err := k.db.query(selectMarks(), take, args...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func selectMarks() string {
	return `SELECT key, version, until, value FROM pawl_mark WHERE scope = ? AND (until IS NULL OR until > ?) AND key IN (?` +
		strings.Repeat(",?", marksPart-1) + `)`
}

// ListMarks implements [store.Shared].
func (s *side) ListMarks(ctx context.Context, scope, prefix string) iter.Seq2[store.Marked, error] {
	return sqlstore.ListMarks(scope, prefix, func(from, end []byte) (page []store.Marked, err error) {
		err = s.inspector.peek(ctx, "list marks", func(k *work) (err error) {
			page, err = collect(k.db, func(r row) (store.Marked, error) { return readMark(scope, r), nil }, markPage,
				[]byte(scope), from, end, k.now, int64(sqlstore.MarkPage), int64(sqlstore.MarkPageBytes))
			return err
		})
		return page, err
	})
}

// Forget implements [store.Shared].
func (s *side) Forget(ctx context.Context, scope string) error {
	if err := backend.AdmitScope("forget", scope); err != nil {
		return err
	}
	from := uniqueScope('s', scope)
	end := []byte(backend.PrefixEnd(string(from)))
	if err := s.forgetAll(ctx, forgetMarks, []byte(scope)); err != nil {
		return err
	}
	return s.forgetAll(ctx, forgetUniques, from, end)
}

// forgetAll repeats a removal, each time in a transaction that others may share,
// until nothing is left.
func (s *side) forgetAll(ctx context.Context, statement string, args ...any) error {
	for {
		removed := int64(0)
		err := s.write(ctx, &call{op: "forget", phase: toManage, weight: forgetPart, do: func(k *work) (err error) {
			removed, err = k.db.exec(statement, args...)
			return err
		}})
		if err != nil || removed < forgetPart {
			return err
		}
	}
}

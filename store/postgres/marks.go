package postgres

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// The statements that write marks: $1 scopes, $2 keys, $3 skew, $4 versions, $5
// microseconds to be kept (0: until it is removed), $6 values. They give back the
// versions of what they wrote.
const (
	insertMarks = `INSERT INTO @mark AS m (scope, key, version, until, value)
		SELECT x.scope, x.key, x.version,
			CASE WHEN x.keep > 0 THEN clock_timestamp() + $3::interval + x.keep * interval '1 microsecond' END, x.value
		FROM unnest($1::bytea[], $2::bytea[], $4::bigint[], $5::bigint[], $6::bytea[]) x(scope, key, version, keep, value)
		ON CONFLICT (scope, key) DO UPDATE SET version = excluded.version, until = excluded.until, value = excluded.value `
	putFirstMarks = insertMarks + `WHERE m.until <= clock_timestamp() + $3::interval RETURNING version`
	putAnyMarks   = insertMarks + `RETURNING version`
	// swapMarks: $7 the versions that must be there.
	swapMarks = `UPDATE @mark m SET version = x.version, value = x.value,
			until = CASE WHEN x.keep > 0 THEN clock_timestamp() + $3::interval + x.keep * interval '1 microsecond' END
		FROM unnest($1::bytea[], $2::bytea[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bigint[]) x(scope, key, version, keep, value, want)
		WHERE m.scope = x.scope AND m.key = x.key AND m.version = x.want AND (m.until IS NULL OR m.until > clock_timestamp() + $3::interval)
		RETURNING m.version`
	// removeMarks: $4 the versions that must be there, or -1, $5 what it gives back.
	removeMarks = `DELETE FROM @mark m USING unnest($1::bytea[], $2::bytea[], $4::bigint[], $5::bigint[]) x(scope, key, want, i)
		WHERE m.scope = x.scope AND m.key = x.key AND x.want IN (-1, m.version)
			AND (m.until IS NULL OR m.until > clock_timestamp() + $3::interval)
		RETURNING x.i`
	getMarks = `SELECT m.key, m.version, m.until, m.value FROM unnest($2::bytea[]) x(key)
		CROSS JOIN LATERAL (SELECT m.* FROM @mark m WHERE m.scope = $1::bytea AND m.key = x.key OFFSET 0) m
		WHERE m.until IS NULL OR m.until > clock_timestamp() + $3::interval`
	// markPage: $2 from, $3 to (empty: the end), $5 how many, $6 how many bytes.
	markPage = `SELECT key, version, until, value FROM (
			SELECT key, version, until, value, sum(octet_length(value)) OVER (ORDER BY key) - octet_length(value) AS before FROM (
				SELECT key, version, until, value FROM @mark WHERE scope = $1::bytea AND key >= $2::bytea AND ($3::bytea = '' OR key < $3::bytea)
					AND (until IS NULL OR until > (SELECT clock_timestamp() + $4::interval)) ORDER BY key LIMIT $5::bigint) m) m
		WHERE before < $6::bigint ORDER BY key`
	// forgetMarks and forgetUniques remove some of a range, locked in the order in
	// which everybody locks, and give back where they stopped.
	forgetMarks = `WITH c AS MATERIALIZED (SELECT key FROM @mark WHERE scope = $1::bytea AND key > $2::bytea ORDER BY key LIMIT 2000 FOR UPDATE),
		d AS (DELETE FROM @mark WHERE scope = $1::bytea AND key = ANY (ARRAY(SELECT key FROM c)))
		SELECT key, count(*) OVER () FROM c ORDER BY key DESC LIMIT 1`
	forgetUniques = `WITH c AS MATERIALIZED (SELECT k FROM @uniq WHERE k > $2::bytea AND k < $1::bytea ORDER BY k LIMIT 2000 FOR UPDATE),
		d AS (DELETE FROM @uniq WHERE k = ANY (ARRAY(SELECT k FROM c)))
		SELECT k, count(*) OVER () FROM c ORDER BY k DESC LIMIT 1`
	// forgetPart is how many rows those remove.
	forgetPart = 2000
	purgeMarks = `WITH d AS (DELETE FROM @mark WHERE ctid = ANY (ARRAY(SELECT ctid FROM @mark
		WHERE until < (SELECT clock_timestamp() + $1::interval) LIMIT 5000)) RETURNING 1) SELECT count(*) FROM d`
)

// markColumns are marks that one statement writes.
type markColumns struct {
	at            []int // positions in the call
	scope, key    [][]byte
	version, keep []int64
	want          []int64
	value         [][]byte
}

func (c *markColumns) add(i int, m *pawl.Mark, version int64) {
	c.at = append(c.at, i)
	c.scope, c.key = append(c.scope, []byte(m.Scope)), append(c.key, []byte(m.Key))
	c.version, c.keep = append(c.version, version), append(c.keep, micros(m.For))
	c.want, c.value = append(c.want, m.If), append(c.value, m.Value)
}

// PutMarks implements [store.Shared].
func (s *side) PutMarks(ctx context.Context, marks ...pawl.Mark) ([]store.MarkReceipt, error) {
	receipts, err := backend.AdmitMarks(marks)
	if err != nil {
		return nil, err
	}
	changed := map[int64]bool{}
	steps := s.markSteps(marks, receipts, note(changed, row.int8))
	err = s.guard(ctx, "put marks", func(ctx context.Context) error {
		if len(steps) == 0 {
			return nil
		}
		return s.callAfresh(ctx, s.front, func() { clear(changed) }, steps...)
	})
	if err != nil {
		return nil, err
	}
	for i := range receipts {
		r := &receipts[i]
		if marks[i].Remove {
			r.Put = changed[removed(i)]
		} else if r.Put = r.Err == nil && changed[r.Version]; !r.Put {
			r.Version = 0
		}
	}
	return receipts, nil
}

// removed stands for the version of the i-th mark of a call when the mark is removed: no
// version is below 1.
func removed(i int) int64 { return int64(-i) }

// markSteps are the statements that write marks, in the order in which everybody
// locks them within each.
func (s *side) markSteps(marks []pawl.Mark, receipts []store.MarkReceipt, each func(row) error) (steps group) {
	order := make([]int, 0, len(marks))
	for i := range marks {
		if receipts[i].Err == nil {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(marks[a].Scope, marks[b].Scope), cmp.Compare(marks[a].Key, marks[b].Key))
	})
	var first, anyway, swap, remove markColumns
	for _, i := range order {
		switch m := &marks[i]; {
		case m.Remove:
			remove.add(i, m, removed(i))
		case m.If > 0:
			swap.add(i, m, receipts[i].Version)
		case m.If == 0:
			first.add(i, m, receipts[i].Version)
		default:
			anyway.add(i, m, receipts[i].Version)
		}
	}
	add := func(sql string, c *markColumns, more ...[]byte) {
		if len(c.at) > 0 {
			args := [][]byte{bytesArray(c.scope), bytesArray(c.key), s.skewValue()}
			steps = append(steps, read(sql, each, append(args, more...)...))
		}
	}
	written := func(c *markColumns) [][]byte {
		return [][]byte{int8Array(c.version), int8Array(c.keep), bytesArray(c.value)}
	}
	add(putFirstMarks, &first, written(&first)...)
	add(putAnyMarks, &anyway, written(&anyway)...)
	add(swapMarks, &swap, append(written(&swap), int8Array(swap.want))...)
	add(removeMarks, &remove, int8Array(remove.want), int8Array(remove.version))
	return steps
}

func readMark(scope string) func(row) (store.Marked, error) {
	return func(r row) (store.Marked, error) {
		return store.Marked{Scope: scope, Key: r.text(0), Version: r.int8(1), Until: r.time(2), Value: r.bytes(3)}, nil
	}
}

// GetMarks implements [store.Shared].
func (s *side) GetMarks(ctx context.Context, scope string, keys ...string) (map[string]store.Marked, error) {
	if err := backend.AdmitScope("get marks", scope, keys...); err != nil {
		return nil, err
	}
	asked := make([][]byte, 0, len(keys))
	for _, key := range slices.Compact(slices.Sorted(slices.Values(keys))) {
		asked = append(asked, []byte(key))
	}
	found, size := make(map[string]store.Marked, len(asked)), 0
	find := read(getMarks, func(r row) error {
		if size += len(r[3]); size > store.MaxBatchBytes {
			return backend.MarksTooLarge()
		}
		m, err := readMark(scope)(r)
		found[m.Key] = m
		return err
	}, []byte(scope), bytesArray(asked), s.skewValue())
	err := s.guard(ctx, "get marks", func(ctx context.Context) error {
		return s.callAfresh(ctx, s.front, func() { clear(found); size = 0 }, find)
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// ListMarks implements [store.Shared].
func (s *side) ListMarks(ctx context.Context, scope, prefix string) iter.Seq2[store.Marked, error] {
	return sqlstore.ListMarks(scope, prefix, func(from, end []byte) (page []store.Marked, err error) {
		err = s.guard(ctx, "list marks", func(ctx context.Context) error {
			return s.callAfresh(ctx, s.front, func() { page = nil }, read(markPage, collect(&page, readMark(scope)),
				[]byte(scope), bytesValue(from), bytesValue(end), s.skewValue(), int8Value(sqlstore.MarkPage),
				int8Value(sqlstore.MarkPageBytes)))
		})
		return page, err
	})
}

// Forget implements [store.Shared].
func (s *side) Forget(ctx context.Context, scope string) error {
	if err := backend.AdmitScope("forget", scope); err != nil {
		return err
	}
	if err := s.forgetRange(ctx, forgetMarks, []byte(scope), nil); err != nil {
		return err
	}
	from := uniqueScope(scope)
	return s.forgetRange(ctx, forgetUniques, []byte(backend.PrefixEnd(string(from))), from)
}

// forgetRange repeats a removal, a transaction each, until nothing is left.
func (s *side) forgetRange(ctx context.Context, sql string, of, after []byte) error {
	for {
		n := int64(0)
		err := s.guard(ctx, "forget", func(ctx context.Context) error {
			return s.call(ctx, s.front, read(sql, func(r row) error {
				after, n = r.bytes(0), r.int8(1)
				return nil
			}, of, bytesValue(after)))
		})
		if err != nil || n < forgetPart {
			return err
		}
	}
}

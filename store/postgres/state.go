package postgres

import (
	"context"
	"iter"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// side is what processes share beside messages: entries, marks and rates.
type side struct {
	*core
	inspector *inspector
}

const (
	getEntry  = `SELECT key, version, at, writer, value FROM @entry WHERE key = $1::bytea`
	entryPage = `SELECT key, version, at, writer, value FROM @entry
		WHERE key >= $1::bytea AND key < $2::bytea AND version > $3::bigint ORDER BY version LIMIT $4::bigint`
	// nextRevision lets changes pass one by one: the statement that follows sees
	// what the last one did.
	nextRevision = `UPDATE @revision SET version = version + 1 RETURNING version`
	versionOf    = `SELECT version FROM @entry WHERE key = $1::bytea`
	putEntry     = `INSERT INTO @entry (key, version, at, writer, value)
		VALUES ($1::bytea, $2::bigint, clock_timestamp() + $5::interval, $3::text, $4::bytea)
		ON CONFLICT (key) DO UPDATE SET version = excluded.version, at = excluded.at, writer = excluded.writer, value = excluded.value
		RETURNING key, version, at, writer, value`
	deleteEntry = `DELETE FROM @entry WHERE key = $1::bytea`
)

func readEntry(r row) (store.Entry, error) {
	return store.Entry{Key: r.text(0), Version: r.int8(1), At: r.time(2), Writer: r.text(3), Value: r.bytes(4)}, nil
}

// GetState implements [store.Shared].
func (s *side) GetState(ctx context.Context, key string) (found store.Entry, err error) {
	if err := backend.AdmitState(key); err != nil {
		return store.Entry{}, err
	}
	err = s.guard(ctx, "get state", func(ctx context.Context) error {
		return s.call(ctx, s.front, read(getEntry, one(&found, readEntry), bytesValue([]byte(key))))
	})
	if err == nil && found.Version == 0 {
		err = notFound("state", key)
	}
	return found, err
}

// PutState implements [store.Shared].
func (s *side) PutState(ctx context.Context, key string, value []byte, version int64, writer string) (put store.Entry,
	err error) {
	if err := backend.AdmitPut(key, value, version); err != nil {
		return store.Entry{}, err
	}
	err = s.changeEntry(ctx, "put state", key, func(have, next int64) (step, error) {
		st := read(putEntry, one(&put, readEntry), bytesValue([]byte(key)), int8Value(next),
			textValue(store.Text(writer)), bytesValue(value), s.skewValue())
		return st, backend.PutConflict("put state", key, have, version)
	})
	return put, err
}

// DeleteState implements [store.Shared].
func (s *side) DeleteState(ctx context.Context, key string, version int64) error {
	if err := backend.AdmitDelete(key, version); err != nil {
		return err
	}
	return s.changeEntry(ctx, "delete state", key, func(have, _ int64) (step, error) {
		if have == 0 {
			return step{}, notFound("delete state", key)
		}
		return do(deleteEntry, bytesValue([]byte(key))), backend.PutConflict("delete state", key, have, version)
	})
}

// changeEntry runs the step of change, or fails with its error, while no other transaction
// changes the state. have is the version of the entry, 0 if there is none.
func (s *side) changeEntry(ctx context.Context, op, key string, change func(have, next int64) (step, error)) error {
	return s.guard(ctx, op, func(ctx context.Context) error {
		return s.within(ctx, s.front, nil, func(t *tx) error {
			have, next := int64(0), int64(0)
			err := t.run(ctx, read(nextRevision, set(&next, row.int8)),
				read(versionOf, set(&have, row.int8), bytesValue([]byte(key))))
			if err != nil {
				return err
			}
			if next == 0 {
				return unexpected("no row of revision")
			}
			st, err := change(have, next)
			if err != nil {
				return err
			}
			return t.run(ctx, st)
		})
	})
}

// ListState implements [store.Shared].
func (s *side) ListState(ctx context.Context, prefix string, after int64) iter.Seq2[store.Entry, error] {
	return sqlstore.ListEntries(prefix, after, func(from, end []byte, after int64, limit int) (page []store.Entry,
		err error) {
		err = s.inspector.cold(ctx, "list state", func(ctx context.Context, t *tx) error {
			page, err = query(ctx, t, readEntry, entryPage, bytesValue(from), bytesValue(end), int8Value(after),
				int8Value(int64(limit)))
			return err
		})
		return page, err
	})
}

// Clock implements [store.Shared].
func (s *side) Clock(ctx context.Context) (now time.Time, err error) {
	err = s.guard(ctx, "clock", func(ctx context.Context) error {
		return s.call(ctx, s.front, read(readClock, set(&now, row.time), s.skewValue()))
	})
	return now, err
}

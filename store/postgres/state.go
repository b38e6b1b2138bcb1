package postgres

import (
	"context"
	"iter"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

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
	return store.Entry{Key: string(r.bytes(0)), Version: r.int8(1), At: r.time(2), Writer: r.text(3),
		Value: r.bytes(4)}, nil
}

// GetState implements [store.Entries].
func (s *Store) GetState(ctx context.Context, key string) (found store.Entry, err error) {
	if err := store.AdmitState(key); err != nil {
		return store.Entry{}, err
	}
	ctx, done, err := s.enter(ctx, "get state")
	if err != nil {
		return store.Entry{}, err
	}
	defer done()
	err = s.call(ctx, s.front, read(getEntry, func(r row) (err error) {
		found, err = readEntry(r)
		return err
	}, bytesValue([]byte(key))))
	if err != nil {
		return store.Entry{}, s.fail("get state", err)
	}
	if found.Version == 0 {
		return store.Entry{}, &store.Error{Op: "state " + key, Code: store.ErrNotFound}
	}
	return found, nil
}

// PutState implements [store.Entries].
func (s *Store) PutState(ctx context.Context, key string, value []byte, version int64, writer string) (put store.Entry,
	err error) {
	if err := store.AdmitPut(key, value, version); err != nil {
		return store.Entry{}, err
	}
	err = s.changeEntry(ctx, "put state", key, func(ctx context.Context, t *tx, have, next int64) (refused, err error) {
		if refused := store.PutConflict("put state", key, have, version); refused != nil {
			return refused, nil
		}
		return nil, t.run(ctx, read(putEntry, func(r row) (err error) {
			put, err = readEntry(r)
			return err
		}, bytesValue([]byte(key)), int8Value(next), textValue(store.Text(writer)), bytesValue(value), s.skewValue()))
	})
	return put, err
}

// DeleteState implements [store.Entries].
func (s *Store) DeleteState(ctx context.Context, key string, version int64) error {
	if err := store.AdmitDelete(key, version); err != nil {
		return err
	}
	return s.changeEntry(ctx, "delete state", key, func(ctx context.Context, t *tx, have, _ int64) (refused,
		err error) {
		if have == 0 {
			return &store.Error{Op: "delete state " + key, Code: store.ErrNotFound}, nil
		}
		if refused := store.PutConflict("delete state", key, have, version); refused != nil {
			return refused, nil
		}
		return nil, t.run(ctx, do(deleteEntry, bytesValue([]byte(key))))
	})
}

// changeEntry runs change while no other transaction changes the state; have is the
// version of the entry, 0 if there is none.
func (s *Store) changeEntry(ctx context.Context, op, key string,
	change func(ctx context.Context, t *tx, have, next int64) (refused, err error),
) error {
	ctx, done, err := s.enter(ctx, op)
	if err != nil {
		return err
	}
	defer done()
	var refused error
	err = s.within(ctx, s.front, nil, func(t *tx) (err error) {
		have, next := int64(0), int64(0)
		err = t.run(ctx, read(nextRevision, func(r row) error {
			next = r.int8(0)
			return nil
		}), read(versionOf, func(r row) error {
			have = r.int8(0)
			return nil
		}, bytesValue([]byte(key))))
		if err != nil {
			return err
		}
		if next == 0 {
			return unexpected("no row of revision")
		}
		refused, err = change(ctx, t, have, next)
		return err
	})
	if err != nil {
		return s.fail(op, err)
	}
	return refused
}

// ListState implements [store.Entries].
func (s *Store) ListState(ctx context.Context, prefix string, after int64) iter.Seq2[store.Entry, error] {
	return sqlstore.ListEntries(prefix, after, func(from, end []byte, after int64, limit int) ([]store.Entry, error) {
		ctx, done, err := s.enter(ctx, "list state")
		if err != nil {
			return nil, err
		}
		defer done()
		var page []store.Entry
		err = s.cold(ctx, func(t *tx) error {
			page, err = query(ctx, t, readEntry, entryPage, bytesValue(from), bytesValue(end), int8Value(after),
				int8Value(int64(limit)))
			return err
		})
		return page, s.fail("list state", err)
	})
}

// Clock implements [store.Entries].
func (s *Store) Clock(ctx context.Context) (now time.Time, err error) {
	ctx, done, err := s.enter(ctx, "clock")
	if err != nil {
		return time.Time{}, err
	}
	defer done()
	err = s.call(ctx, s.front, read(readClock, func(r row) error {
		now = r.time(0)
		return nil
	}, s.skewValue()))
	return now, s.fail("clock", err)
}

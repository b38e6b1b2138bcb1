package sqlite

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
	selectEntryOf = `SELECT key, version, at, writer, value FROM pawl_entry WHERE key = ?`
	versionOf     = `SELECT version FROM pawl_entry WHERE key = ?`
	entryPage     = `SELECT key, version, at, writer, value FROM pawl_entry
		WHERE key >= ?1 AND key < ?2 AND version > ?3 ORDER BY version LIMIT ?4`
	// entriesSince does not read all of a prefix to find what is new in it.
	entriesSince = `SELECT key, version, at, writer, value FROM pawl_entry INDEXED BY pawl_entry_version
		WHERE key >= ?1 AND key < ?2 AND version > ?3 ORDER BY version LIMIT ?4`
	nextRevision = `UPDATE pawl_revision SET version = version + 1 RETURNING version`
	putEntry     = `INSERT INTO pawl_entry (key, version, at, writer, value) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET version = excluded.version, at = excluded.at, writer = excluded.writer, value = excluded.value`
	deleteEntry = `DELETE FROM pawl_entry WHERE key = ?`
)

func readEntry(r row) (store.Entry, error) {
	return store.Entry{Key: r.text(0), Version: r.int(1), At: moment(r.int(2)), Writer: r.text(3),
		Value: r.bytes(4)}, nil
}

// GetState implements [store.Shared].
func (s *side) GetState(ctx context.Context, key string) (found store.Entry, err error) {
	if err := backend.AdmitState(key); err != nil {
		return store.Entry{}, err
	}
	err = s.inspector.peek(ctx, "get state", func(k *work) error {
		all, err := collect(k.db, readEntry, selectEntryOf, []byte(key))
		if err == nil && len(all) == 0 {
			return notFound("state", key)
		}
		if err == nil {
			found = all[0]
		}
		return err
	})
	return found, err
}

// PutState implements [store.Shared].
func (s *side) PutState(ctx context.Context, key string, value []byte, version int64,
	writer string) (store.Entry, error) {
	if err := backend.AdmitPut(key, value, version); err != nil {
		return store.Entry{}, err
	}
	if value == nil {
		value = []byte{}
	}
	e := store.Entry{Key: key, Value: value, Writer: store.Text(writer)}
	err := s.manage(ctx, "put state", func(k *work) (refused, err error) {
		have, _, err := first(k.db, versionOf, []byte(key))
		if err != nil {
			return nil, err
		}
		if refused := backend.PutConflict("put state", key, have[0], version); refused != nil {
			return refused, nil
		}
		next, _, err := first(k.db, nextRevision)
		if err != nil {
			return nil, err
		}
		e.Version, e.At = next[0], moment(k.now)
		_, err = k.db.exec(putEntry, []byte(key), e.Version, k.now, e.Writer, value)
		return nil, err
	})
	if err != nil {
		return store.Entry{}, err
	}
	e.Value = append([]byte(nil), value...)
	return e, nil
}

// DeleteState implements [store.Shared].
func (s *side) DeleteState(ctx context.Context, key string, version int64) error {
	if err := backend.AdmitDelete(key, version); err != nil {
		return err
	}
	return s.manage(ctx, "delete state", func(k *work) (refused, err error) {
		have, there, err := first(k.db, versionOf, []byte(key))
		if err != nil {
			return nil, err
		}
		if !there {
			return notFound("delete state", key), nil
		}
		if refused := backend.PutConflict("delete state", key, have[0], version); refused != nil {
			return refused, nil
		}
		if _, err := k.db.exec(deleteEntry, []byte(key)); err != nil {
			return nil, err
		}
		_, _, err = first(k.db, nextRevision)
		return nil, err
	})
}

// ListState implements [store.Shared].
func (s *side) ListState(ctx context.Context, prefix string, after int64) iter.Seq2[store.Entry, error] {
	return sqlstore.ListEntries(prefix, after, func(from, end []byte, after int64, limit int) (page []store.Entry,
		err error) {
		err = s.inspector.peek(ctx, "list state", func(k *work) (err error) {
			text := entryPage
			if after > 0 {
				text = entriesSince
			}
			page, err = collect(k.db, readEntry, text, from, end, after, int64(limit))
			return err
		})
		return page, err
	})
}

// Clock implements [store.Shared]. It needs no transaction.
func (s *side) Clock(ctx context.Context) (time.Time, error) {
	return s.cfg.Now(), s.usable(ctx, "clock")
}

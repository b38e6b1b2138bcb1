package sqlite

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// side is what processes share beside messages: entries, marks and rates.
type side struct {
	*core
	*entries
	inspector *inspector
}

type entries = sqlstore.Entries

func newSide(c *core, i *inspector) *side {
	s := &side{core: c, inspector: i}
	s.entries = sqlstore.NewEntries(sqlstore.EntryTable{Get: s.entry, Page: s.entryPage, Change: s.changeEntry})
	return s
}

const (
	selectEntryOf = `SELECT key, version, at, writer, value FROM pawl_entry WHERE key = ?`
	versionOf     = `SELECT version FROM pawl_entry WHERE key = ?`
	entryPage     = `SELECT key, version, at, writer, value FROM pawl_entry
		WHERE key >= ?1 AND key < ?2 AND version > ?3 ORDER BY version LIMIT ?4`
	// entriesSince does not read all of a prefix to find what is new in it.
	entriesSince = `SELECT key, version, at, writer, value FROM pawl_entry INDEXED BY pawl_entry_version
		WHERE key >= ?1 AND key < ?2 AND version > ?3 ORDER BY version LIMIT ?4`
	entriesBefore = `SELECT key, version, at, writer, value FROM pawl_entry INDEXED BY pawl_entry_version
		WHERE key >= ?1 AND key < ?2 AND version < ?3 ORDER BY version DESC LIMIT ?4`
	nextRevision = `UPDATE pawl_revision SET version = version + 1 RETURNING version`
	putEntry     = `INSERT INTO pawl_entry (key, version, at, writer, value) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (key) DO UPDATE SET version = excluded.version, at = excluded.at, writer = excluded.writer, value = excluded.value`
	deleteEntry = `DELETE FROM pawl_entry WHERE key = ?`
)

func readEntry(r row) (store.Entry, error) {
	return store.Entry{Key: r.text(0), Version: r.int(1), At: moment(r.int(2)), Writer: r.text(3),
		Value: r.bytes(4)}, nil
}

func (s *side) entry(ctx context.Context, op, key string) (found store.Entry, err error) {
	err = s.inspector.peek(ctx, op, func(k *work) error {
		return k.db.query(selectEntryOf, func(r row) (err error) {
			found, err = readEntry(r)
			return err
		}, []byte(key))
	})
	return found, err
}

func (s *side) entryPage(ctx context.Context, op string, from, end []byte, than int64, down bool,
	limit int) (page []store.Entry, err error) {
	err = s.inspector.peek(ctx, op, func(k *work) (err error) {
		text := entryPage
		switch {
		case down:
			text = entriesBefore
		case than > 0:
			text = entriesSince
		}
		page, err = collect(k.db, readEntry, text, from, end, than, int64(limit))
		return err
	})
	return page, err
}

func (s *side) changeEntry(ctx context.Context, op, key string,
	become func(have int64) (*store.Entry, error)) error {
	return s.manage(ctx, op, func(k *work) (refused, err error) {
		have, _, err := first(k.db, versionOf, []byte(key))
		if err != nil {
			return nil, err
		}
		e, refused := become(have[0])
		if refused != nil {
			return refused, nil
		}
		next, _, err := first(k.db, nextRevision)
		switch {
		case err != nil:
		case e == nil:
			_, err = k.db.exec(deleteEntry, []byte(key))
		default:
			e.Version, e.At = next[0], moment(k.now)
			_, err = k.db.exec(putEntry, []byte(key), e.Version, k.now, e.Writer, e.Value)
		}
		return nil, err
	})
}

// Clock implements [store.Shared]. It needs no transaction.
func (s *side) Clock(ctx context.Context) (time.Time, error) {
	return s.cfg.Now(), s.usable(ctx, "clock")
}

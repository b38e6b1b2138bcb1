package postgres

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// side has the data that processes share beside messages: entries, marks and rates.
type side struct {
	*core
	*entries
	inspector *inspector
	upkeep    *upkeep
}

type entries = sqlstore.Entries

func newSide(c *core, i *inspector, u *upkeep) *side {
	s := &side{core: c, inspector: i, upkeep: u}
	s.entries = sqlstore.NewEntries(sqlstore.EntryTable{Get: s.entry, Page: s.entryPage, Change: s.changeEntry})
	return s
}

const (
	getEntry  = `SELECT key, version, at, writer, value FROM @entry WHERE key = $1::bytea`
	entryPage = `SELECT key, version, at, writer, value FROM @entry
		WHERE key >= $1::bytea AND key < $2::bytea AND version > $3::bigint ORDER BY version LIMIT $4::bigint`
	entriesBefore = `SELECT key, version, at, writer, value FROM @entry
		WHERE key >= $1::bytea AND key < $2::bytea AND version < $3::bigint ORDER BY version DESC LIMIT $4::bigint`
	// nextRevision lets changes pass one by one: the next statement sees the effect of the last
	// one.
	nextRevision = `UPDATE @revision SET version = version + 1 RETURNING version`
	versionOf    = `SELECT version FROM @entry WHERE key = $1::bytea`
	putEntry     = `INSERT INTO @entry (key, version, at, writer, value)
		VALUES ($1::bytea, $2::bigint, clock_timestamp() + $5::interval, $3::text, $4::bytea)
		ON CONFLICT (key) DO UPDATE SET version = excluded.version, at = excluded.at, writer = excluded.writer, value = excluded.value
		RETURNING at`
	deleteEntry = `DELETE FROM @entry WHERE key = $1::bytea`
)

func readEntry(r row) (store.Entry, error) {
	return store.Entry{Key: r.text(0), Version: r.int8(1), At: r.time(2), Writer: r.text(3), Value: r.bytes(4)}, nil
}

func (s *side) entry(ctx context.Context, op, key string) (found store.Entry, err error) {
	err = s.guard(ctx, op, func(ctx context.Context) error {
		return s.call(ctx, s.front, read(getEntry, one(&found, readEntry), bytesValue([]byte(key))))
	})
	return found, err
}

func (s *side) entryPage(ctx context.Context, op string, from, end []byte, than int64, down bool,
	limit int) (page []store.Entry, err error) {
	err = s.inspector.cold(ctx, op, func(ctx context.Context, t *tx) error {
		text := entryPage
		if down {
			text = entriesBefore
		}
		page, err = query(ctx, t, readEntry, text, bytesValue(from), bytesValue(end), int8Value(than),
			int8Value(int64(limit)))
		return err
	})
	return page, err
}

func (s *side) changeEntry(ctx context.Context, op, key string,
	become func(have int64) (*store.Entry, error)) error {
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
			e, err := become(have)
			if err != nil {
				return err
			}
			if e == nil {
				return t.run(ctx, do(deleteEntry, bytesValue([]byte(key))))
			}
			e.Version = next
			return t.run(ctx, read(putEntry, set(&e.At, row.time), bytesValue([]byte(key)), int8Value(next),
				textValue(e.Writer), bytesValue(e.Value), s.skewValue()))
		})
	})
}

// Clock implements [store.Shared].
func (s *side) Clock(ctx context.Context) (now time.Time, err error) {
	err = s.guard(ctx, "clock", func(ctx context.Context) error {
		return s.call(ctx, s.front, read(readClock, set(&now, row.time), s.skewValue()))
	})
	return now, err
}

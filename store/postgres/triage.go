package postgres

import (
	"context"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

const (
	// Every change of dead letters first locks them in the order of lockPurged.
	resolveDead = `UPDATE @dead SET resolved_at = clock_timestamp() + $2::interval, resolved_by = $3::text, note = $4::text
		WHERE id = ANY ($1::bytea[]) RETURNING id`
	reopenDead = `UPDATE @dead SET resolved_at = NULL, resolved_by = NULL, note = NULL
		WHERE id = ANY ($1::bytea[]) RETURNING id`
	// markBuried marks a letter that was resolved before it was buried.
	markBuried = `UPDATE @dead SET resolved_at = $2::timestamptz, resolved_by = $3::text, note = $4::text
		WHERE id = $1::bytea`
)

// ReplayKeeping implements [store.Triage].
func (s *Store) ReplayKeeping(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	return s.replayAll(ctx, topic, true, ids)
}

// Resolve implements [store.Triage].
func (s *Store) Resolve(ctx context.Context, by, note string, ids ...string) (map[string]error, error) {
	return s.markDead(ctx, "resolve", ids, resolveDead, s.skewValue(), textValue(store.Text(by)),
		textValue(store.Text(note)))
}

// Reopen implements [store.Triage].
func (s *Store) Reopen(ctx context.Context, ids ...string) (map[string]error, error) {
	return s.markDead(ctx, "reopen", ids, reopenDead)
}

func (s *Store) markDead(ctx context.Context, op string, ids []string, sql string,
	args ...[]byte) (map[string]error, error) {
	ctx, done, err := s.enter(ctx, op)
	if err != nil {
		return nil, err
	}
	defer done()
	refused := map[string]error{}
	err = s.within(ctx, s.front, nil, func(t *tx) error {
		for _, id := range ids {
			refused[id] = &store.Error{Op: op + " " + id, Code: store.ErrNotFound}
		}
		return t.run(ctx, do(lockPurged, sortedIDs(ids)), read(sql, func(r row) error {
			delete(refused, sqlstore.DecodeID(r.bytes(0)))
			return nil
		}, append([][]byte{encodeIDs(ids)}, args...)...))
	})
	return refused, s.fail(op, err)
}

// resolution is what a row says from that column on.
func resolution(r row, at int) *store.Resolution {
	if r.null(at) {
		return nil
	}
	return &store.Resolution{At: r.time(at), By: r.text(at + 1), Note: r.text(at + 2)}
}

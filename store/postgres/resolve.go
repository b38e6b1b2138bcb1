package postgres

import (
	"context"

	"github.com/pawl-dev/pawl/store"
)

const (
	// Every change of dead letters first locks them in the order of lockPurged.
	resolveDead = `UPDATE @dead SET resolved_at = clock_timestamp() + $2::interval, resolved_by = $3::text, note = $4::text
		WHERE id = ANY ($1::bytea[]) RETURNING id`
	reopenDead = `UPDATE @dead SET resolved_at = NULL, resolved_by = NULL, note = NULL
		WHERE id = ANY ($1::bytea[]) RETURNING id`
	// markResolved marks a letter that was resolved before it was imported.
	markResolved = `UPDATE @dead SET resolved_at = $2::timestamptz, resolved_by = $3::text, note = $4::text
		WHERE id = $1::bytea`
)

// ReplayKeeping implements [store.DeadLetters].
func (s *letters) ReplayKeeping(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	return s.replayAll(ctx, topic, true, ids)
}

// Resolve implements [store.DeadLetters].
func (s *letters) Resolve(ctx context.Context, by, note string, ids ...string) (map[string]error, error) {
	return s.eachDead(ctx, "resolve", ids, resolveDead, s.skewValue(), textValue(store.Text(by)),
		textValue(store.Text(note)))
}

// Reopen implements [store.DeadLetters].
func (s *letters) Reopen(ctx context.Context, ids ...string) (map[string]error, error) {
	return s.eachDead(ctx, "reopen", ids, reopenDead)
}

// eachDead runs a statement on dead letters $1, in one transaction, and collects those whose ids it does not return.
func (s *letters) eachDead(ctx context.Context, op string, ids []string, sql string,
	args ...[]byte) (refused map[string]error, err error) {
	err = s.guard(ctx, op, func(ctx context.Context) error {
		return s.within(ctx, s.front, nil, func(t *tx) error {
			refused = map[string]error{}
			for _, id := range ids {
				refused[id] = notFound(op, id)
			}
			return t.run(ctx, do(lockPurged, sortedIDs(ids)), read(sql, func(r row) error {
				delete(refused, r.messageID(0))
				return nil
			}, append([][]byte{encodeIDs(ids)}, args...)...))
		})
	})
	return refused, err
}

// resolution reads the resolution in a row, from that column on.
func resolution(r row, at int) *store.Resolution {
	if r.null(at) {
		return nil
	}
	return &store.Resolution{At: r.time(at), By: r.text(at + 1), Note: r.text(at + 2)}
}

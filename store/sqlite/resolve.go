package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl/store"
)

const setResolved = `UPDATE pawl_dead SET resolved = ?, resolved_by = ?, note = ? WHERE seq = ?`

// ReplayKeeping implements [store.DeadLetters].
func (s *letters) ReplayKeeping(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	return s.replayAll(ctx, topic, true, ids)
}

// Resolve implements [store.DeadLetters].
func (s *letters) Resolve(ctx context.Context, by, note string, ids ...string) (map[string]error, error) {
	return s.inspector.each(ctx, "resolve", ids, func(k *work, id string) (refused, err error) {
		return letterWork{k}.resolve("resolve", id,
			&store.Resolution{At: moment(k.now), By: store.Text(by), Note: store.Text(note)})
	})
}

// Reopen implements [store.DeadLetters].
func (s *letters) Reopen(ctx context.Context, ids ...string) (map[string]error, error) {
	return s.inspector.each(ctx, "reopen", ids, func(k *work, id string) (refused, err error) {
		return letterWork{k}.resolve("reopen", id, nil)
	})
}

func (k letterWork) resolve(op, id string, r *store.Resolution) (refused, err error) {
	st, refused, err := k.dead(op, id)
	if st == nil {
		return refused, err
	}
	return nil, k.setResolved(st.seq, r)
}

// setResolved marks a dead letter, or takes its mark away.
func (k letterWork) setResolved(seq int64, r *store.Resolution) error {
	args := []any{nil, nil, nil, seq}
	if r != nil {
		args = []any{r.At.UnixMicro(), r.By, r.Note, seq}
	}
	_, err := k.db.exec(setResolved, args...)
	return err
}

// resolution is what a row says from that column on.
func resolution(r row, at int) *store.Resolution {
	if r[at] == nil {
		return nil
	}
	return &store.Resolution{At: moment(r.int(at)), By: r.text(at + 1), Note: r.text(at + 2)}
}

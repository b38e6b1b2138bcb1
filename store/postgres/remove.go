package postgres

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// A topic that is removed keeps its row, as that of a topic that an append has just made:
// other processes know its number, and append under it. It is hidden until then.
const (
	resetTopic = `UPDATE @topic SET ordered = true, deadline = $2::bigint, ageing = $3::bigint, park = false, tail = false, retain = 0,
		max_waiting = 0, version = 0, paused_at = NULL, pause_until = NULL, pause_by = NULL, pause_reason = NULL, removed = true
		WHERE id = $1::int`
	hasDead     = `SELECT EXISTS (SELECT FROM @dead WHERE topic = $1::int)`
	dropAcked   = `DELETE FROM @acked WHERE topic = $1::int`
	dropDeaths  = `DELETE FROM @death WHERE topic = $1::int`
	dropTallies = `DELETE FROM @tally WHERE topic = $1::int`
	// dropTotals comes after dropTallies, which waits for a process that adds tallies up at the
	// same time.
	dropTotals    = `DELETE FROM @total WHERE topic = $1::int`
	bringBack     = `UPDATE @topic SET removed = false WHERE name = $1::text AND removed`
	removedTopics = `SELECT id FROM @topic WHERE removed`
	isHidden      = `SELECT EXISTS (SELECT FROM @topic t WHERE t.name = $1::text AND t.removed
		AND NOT EXISTS (SELECT FROM @tally y WHERE y.topic = t.id AND y.what = 1)
		AND NOT EXISTS (SELECT FROM @total y WHERE y.topic = t.id AND y.what = 1))`
)

// RemoveTopic implements [store.Topics].
func (s *registry) RemoveTopic(ctx context.Context, name string) error {
	if pawl.ValidTopic(name) != nil {
		return notFound("topic", name)
	}
	err := s.inspector.cold(ctx, "remove topic", func(ctx context.Context, t *tx) error {
		return s.removeTopic(ctx, t, name)
	})
	if errors.Is(err, errOrderBusy) {
		return &store.Error{Op: "remove topic " + name, Code: store.ErrUnavailable, Err: errOrderBusy,
			Hint: "end the transaction that does, and repeat the call"}
	}
	if err != nil {
		return err
	}
	return s.guard(ctx, "remove topic", s.loadTopics)
}

func (s *registry) removeTopic(ctx context.Context, t *tx, name string) error {
	var found []*topic
	hidden, dead := false, false
	err := t.run(ctx, read(lockTopic, collect(&found, readTopic), textValue(name)),
		read(isHidden, set(&hidden, row.bool), textValue(name)))
	if err != nil {
		return err
	}
	if len(found) == 0 || hidden {
		return notFound("topic", name)
	}
	id := int4Value(found[0].id)
	empty, err := s.emptyTopic(ctx, t, found[0].id)
	if err != nil {
		return err
	}
	if err := t.run(ctx, read(hasDead, set(&dead, row.bool), id)); err != nil {
		return err
	}
	if dead || !empty {
		return backend.NotEmpty(name)
	}
	return t.run(ctx, do(resetTopic, id, int8Value(int64(store.DefaultDeadline)),
		int8Value(int64(store.DefaultAgeing))),
		do(dropAcked, id), do(dropDeaths, id), do(dropTallies, id), do(dropTotals, id))
}

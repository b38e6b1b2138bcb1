package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl/store/backend"
)

const (
	countAll = `SELECT appended - acked - cancelled - purged FROM pawl_total WHERE topic = ?`
	retained = `SELECT a.seq FROM pawl_acked a CROSS JOIN pawl_msg m ON m.seq = a.seq WHERE m.topic = ?`
)

// removeTopic: the number may be given to another topic.
var removeTopic = []string{
	`DELETE FROM pawl_closed WHERE topic = ?`,
	`DELETE FROM pawl_death WHERE topic = ?`,
	`DELETE FROM pawl_total WHERE topic = ?`,
	`DELETE FROM pawl_topic WHERE topic = ?`,
}

// RemoveTopic implements [store.Topics].
func (s *registry) RemoveTopic(ctx context.Context, name string) error {
	return s.manage(ctx, "remove topic", func(k *work) (refused, err error) { return k.removeTopic(name) })
}

func (k *work) removeTopic(name string) (refused, err error) {
	t := k.topics.byName[name]
	if t == nil {
		return notFound("topic", name), nil
	}
	cols, _, err := first(k.db, countAll, t.number)
	if own := k.of(t.number); err != nil || cols[0]+own.appended-own.acked-own.cancelled-own.purged != 0 {
		return backend.NotEmpty(name), err
	}
	if _, err := k.forgetAcked(retained, t.number); err != nil {
		return nil, err
	}
	if err := k.execAll(removeTopic, t.number); err != nil {
		return nil, err
	}
	delete(k.totals, t.number)
	delete(k.topics.byName, name)
	delete(k.topics.byNumber, t.number)
	k.changed()
	return nil, nil
}

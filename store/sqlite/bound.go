package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/bound"
)

// countWaiting counts what the bound of a topic goes by: what was appended, what has
// left, dead letters, and what is leased: of these there are few, and all are looked at.
const countWaiting = `SELECT appended, acked + cancelled + purged, (SELECT count(*) FROM pawl_dead WHERE topic = ?1),
	(SELECT coalesce(sum(CASE WHEN lane > 0 THEN 1
		ELSE (SELECT count(*) FROM pawl_msg m WHERE m.lane = l.lane AND m.lane < 0 AND m.seq <= l.last) END), 0)
	FROM pawl_lease l WHERE topic = ?1) FROM pawl_total WHERE topic = ?1`

// look is how the meter looks at the topics from within a transaction.
func (k *work) look() bound.Look {
	return bound.Look{
		Now: moment(k.now),
		Most: func(name string) int64 {
			if t := k.topics.byName[name]; t != nil {
				return t.MaxWaiting
			}
			return 0
		},
		Read: func(name string) (bound.Reading, error) { return k.reading(k.topics.byName[name].number) },
	}
}

// reading counts in one topic. Totals of this transaction are in memory and count.
func (k *work) reading(number int64) (bound.Reading, error) {
	cols, _, err := first(k.db, countWaiting, number)
	if err != nil {
		return bound.Reading{}, err
	}
	own := k.totals[number]
	if own == nil {
		own = &totals{}
	}
	left := cols[1] + cols[2] + own.acked + own.cancelled + own.purged
	return bound.Reading{Waiting: cols[0] + own.appended - left - cols[3], Left: left}, nil
}

// Full implements [store.Topics].
func (s *registry) Full(ctx context.Context, topics ...string) (full []*store.TopicFullError, err error) {
	err = s.read(ctx, "full", func(k *work) (err error) {
		full, err = s.meter.Full(k.look(), topics...)
		return err
	})
	return full, err
}

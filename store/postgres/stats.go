package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/store"
)

const (
	countMessages = `
WITH ` + heldSolo + `,
s AS (SELECT m.topic, m.vis, ` + stateOfM + ` AS state FROM @msg m LEFT JOIN @lease l ON l.lane = m.lane LEFT JOIN held h ON h.lane = m.lane)
SELECT topic, state, count(*), min(vis), (SELECT clock_timestamp() + $1::interval) FROM s GROUP BY topic, state`
	countDead  = `SELECT topic, count(*) FROM @dead GROUP BY topic`
	sumTallies = `SELECT topic, what, sum(n)::bigint FROM (SELECT * FROM @tally UNION ALL SELECT * FROM @total) t GROUP BY topic, what`
	readPauses = `SELECT id, paused_at, pause_until, pause_by, pause_reason FROM @topic
		WHERE paused_at IS NOT NULL AND (pause_until IS NULL OR pause_until > (SELECT clock_timestamp() + $1::interval))`
)

// Stats implements [store.Topics].
func (s *Store) Stats(ctx context.Context, names ...string) ([]store.TopicStats, error) {
	ctx, done, err := s.enter(ctx, "stats")
	if err != nil {
		return nil, err
	}
	defer done()
	if err := s.catchUp(ctx); err != nil {
		return nil, s.fail("stats", err)
	}
	by := map[int32]*store.TopicStats{}
	s.topics.mu.RLock()
	for id, t := range s.topics.byID {
		if len(names) == 0 || slices.Contains(names, t.Name) {
			by[id] = &store.TopicStats{Topic: t.Topic}
		}
	}
	s.topics.mu.RUnlock()
	if err := s.within(ctx, s.front, coldSnapshot(), func(t *tx) error { return s.figures(ctx, t, by) }); err != nil {
		return nil, s.fail("stats", err)
	}
	all := make([]store.TopicStats, 0, len(by))
	for _, st := range by {
		all = append(all, *st)
	}
	slices.SortFunc(all, func(a, b store.TopicStats) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// figures reads all of them in one snapshot, so that they agree.
func (s *Store) figures(ctx context.Context, t *tx, by map[int32]*store.TopicStats) error {
	of := func(r row, do func(*store.TopicStats)) {
		if st := by[int32(r.int4(0))]; st != nil {
			do(st)
		}
	}
	return t.run(ctx,
		read(countMessages, func(r row) error {
			of(r, func(st *store.TopicStats) {
				switch store.State(r.text(1)) {
				case store.Waiting:
					st.Waiting = r.int8(2)
					st.OldestWaiting = max(0, r.time(4).Sub(r.time(3)))
				case store.Delayed:
					st.Delayed = r.int8(2)
				default:
					st.Leased = r.int8(2)
				}
			})
			return nil
		}, s.skewValue()),
		read(countDead, func(r row) error {
			of(r, func(st *store.TopicStats) { st.Dead = r.int8(1) })
			return nil
		}),
		read(sumTallies, func(r row) error {
			of(r, func(st *store.TopicStats) { addTotal(st, r.int2(1), r.int8(2)) })
			return nil
		}),
		read(readPauses, func(r row) error {
			of(r, func(st *store.TopicStats) {
				st.Paused = &store.Pause{Since: r.time(1), Until: r.time(2), By: r.text(3), Reason: r.text(4)}
			})
			return nil
		}, s.skewValue()))
}

func addTotal(st *store.TopicStats, what int, n int64) {
	switch what {
	case tallyAppended:
		st.Appended += n
	case tallyAcked:
		st.Acked += n
	case tallyCancelled:
		st.Cancelled += n
	case tallyPurged:
		st.Purged += n
	case tallyDuplicates:
		st.Duplicates += n
	case tallyRetried:
		st.Retried += n
	case tallyRescues:
		st.Rescues += n
	}
}

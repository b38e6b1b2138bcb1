package postgres

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

const (
	countLeased = `WITH ` + heldSolo + `
SELECT topic, count(*) FROM (
	SELECT m.topic FROM held h CROSS JOIN LATERAL (SELECT m.topic FROM @msg m WHERE m.lane = h.lane AND m.seq = h.lane OFFSET 0) m
	UNION ALL
	SELECT m.topic FROM @lease l CROSS JOIN LATERAL (SELECT m.topic FROM @msg m WHERE m.lane = l.lane
		AND m.seq BETWEEN l.first AND l.last AND (l.run IS NULL OR m.seq = ANY (l.run)) OFFSET 0) m WHERE l.token > 0) x GROUP BY topic`
	// countStuck looks only at the few claims that are so old.
	countStuck = `WITH old AS MATERIALIZED (SELECT c.fence, c.lanes, c.gone FROM @claim c
		WHERE (SELECT clock_timestamp() + $1::interval) - c.started > (c.hard - c.started) / 2)
SELECT topic, count(*) FROM (
	SELECT m.topic FROM old c CROSS JOIN unnest(c.lanes) x(lane)
		CROSS JOIN LATERAL (SELECT m.topic FROM @msg m WHERE m.lane = x.lane AND m.seq = x.lane OFFSET 0) m
		WHERE x.lane > 0 AND (c.gone IS NULL OR x.lane <> ALL (c.gone))
	UNION ALL
	SELECT m.topic FROM old c CROSS JOIN unnest(c.lanes) x(lane)
		CROSS JOIN LATERAL (SELECT * FROM @lease l WHERE l.lane = x.lane AND l.token = c.fence OFFSET 0) l
		CROSS JOIN LATERAL (SELECT m.topic FROM @msg m WHERE m.lane = l.lane
			AND m.seq BETWEEN l.first AND l.last AND (l.run IS NULL OR m.seq = ANY (l.run)) OFFSET 0) m
		WHERE x.lane < 0) x GROUP BY topic`
	countDelayed = `SELECT m.topic, count(*) FROM @lease l
	CROSS JOIN LATERAL (SELECT m.topic FROM @msg m WHERE m.lane = l.lane ORDER BY m.seq LIMIT 1) m WHERE l.token <= 0 GROUP BY m.topic`
	// oldestWaiting: of the tickets of one band the best is the oldest, because rank is age.
	// Where the topic's ageing was lowered while messages waited, those are ranked behind
	// younger ones, and not seen here until they are the best. A lane that is leased or closed
	// has its oldest waiting message behind the head; a retry at the tail may be older than the
	// messages before it.
	oldestWaiting = `SELECT topic, min(vis), (SELECT clock_timestamp() + $1::interval) FROM (
	SELECT b.topic, m.vis FROM (
		SELECT b.topic, g.gen, b.topic * 512::bigint + g.gen + b.prio AS band FROM @band b CROSS JOIN (VALUES (0), (128)) g(gen)
		UNION ALL SELECT t.id, 384, t.id * 512::bigint + w.bits FROM @topic t CROSS JOIN ` + suspectBands + `) b
	CROSS JOIN LATERAL (SELECT m.vis FROM @slot s
		CROSS JOIN LATERAL (SELECT m.vis FROM @msg m WHERE m.lane = coalesce(s.lane, s.seq) AND (b.gen > 0 OR m.seq = s.seq) ORDER BY m.seq LIMIT 1) m
		WHERE s.band = b.band
			AND (s.lane IS NULL OR NOT EXISTS (SELECT FROM @lease l WHERE l.lane = s.lane OFFSET 0))
		ORDER BY s.rank, s.seq LIMIT 1) m
	UNION ALL
	SELECT m.topic, m.vis FROM @lease l CROSS JOIN LATERAL (SELECT m.topic, m.vis FROM @msg m WHERE m.lane = l.lane
		AND m.seq > CASE WHEN l.token > 0 THEN l.last ELSE (SELECT min(f.seq) FROM @msg f WHERE f.lane = l.lane) END
		ORDER BY m.seq LIMIT 1) m WHERE l.lane < 0
	UNION ALL
	SELECT m.topic, m.vis FROM @tried t CROSS JOIN LATERAL (SELECT * FROM @msg m WHERE m.lane = t.lane AND m.seq = t.seq OFFSET 0) m
		LEFT JOIN LATERAL (SELECT * FROM @lease l WHERE l.lane = m.lane OFFSET 0) l ON true
		WHERE t.lane < 0 AND m.topic = ANY (ARRAY(SELECT id FROM @topic WHERE tail)) AND (l.lane IS NULL
			OR m.seq > CASE WHEN l.token > 0 THEN l.last ELSE (SELECT min(f.seq) FROM @msg f WHERE f.lane = l.lane) END)
	) x GROUP BY topic`
	countDead  = `SELECT topic, count(*) - count(resolved_at), count(resolved_at) FROM @dead GROUP BY topic`
	sumTallies = `SELECT topic, what, sum(n)::bigint, max(at) FROM (SELECT topic, what, n, at FROM @tally
		UNION ALL SELECT topic, what, n, at FROM @total) t GROUP BY topic, what`
	readPauses = `SELECT id, paused_at, pause_until, pause_by, pause_reason FROM @topic
		WHERE paused_at IS NOT NULL AND (pause_until IS NULL OR pause_until > (SELECT clock_timestamp() + $1::interval))`
)

// Stats implements [store.Topics].
func (s *registry) Stats(ctx context.Context, names ...string) ([]store.TopicStats, error) {
	by := map[int32]*store.TopicStats{}
	err := s.guard(ctx, "stats", func(ctx context.Context) error {
		if err := s.inspector.catchUp(ctx); err != nil {
			return err
		}
		s.topics.mu.RLock()
		for id, t := range s.topics.byID {
			if len(names) == 0 || slices.Contains(names, t.Name) {
				by[id] = &store.TopicStats{Topic: t.Topic}
			}
		}
		s.topics.mu.RUnlock()
		return s.within(ctx, s.front, coldSnapshot, func(t *tx) error { return s.figures(ctx, t, by) })
	})
	if err != nil {
		return nil, err
	}
	return sqlstore.SortStats(by), nil
}

// figures reads all of them in one snapshot, so that they agree.
func (s *registry) figures(ctx context.Context, t *tx, by map[int32]*store.TopicStats) error {
	of := func(sql string, set func(*store.TopicStats, row), args ...[]byte) step {
		return read(sql, func(r row) error {
			if st := by[r.id(0)]; st != nil {
				set(st, r)
			}
			return nil
		}, args...)
	}
	var removed []int32
	err := t.run(ctx,
		read(removedTopics, add(&removed, row.id)),
		of(countLeased, func(st *store.TopicStats, r row) { st.Leased = r.int8(1) }),
		of(countStuck, func(st *store.TopicStats, r row) { st.Stuck = r.int8(1) }, s.skewValue()),
		of(countDelayed, func(st *store.TopicStats, r row) { st.Delayed = r.int8(1) }),
		of(oldestWaiting, func(st *store.TopicStats, r row) {
			st.OldestWaiting = max(0, r.time(2).Sub(r.time(1)))
		}, s.skewValue()),
		of(countDead, func(st *store.TopicStats, r row) { st.Dead, st.Resolved = r.int8(1), r.int8(2) }),
		of(sumTallies, func(st *store.TopicStats, r row) {
			if addTotal(st, r.int2(1), r.int8(2)); r.int2(1) == tallyAcked {
				st.LastAck = r.time(3)
			}
		}),
		of(readDeaths, func(st *store.TopicStats, r row) { st.Deaths = st.Deaths.Add(r.text(1), r.time(2)) }),
		of(readPauses, func(st *store.TopicStats, r row) {
			st.Paused = &store.Pause{Since: r.time(1), Until: r.time(2), By: r.text(3), Reason: r.text(4)}
		}, s.skewValue()))
	for _, id := range removed {
		if st := by[id]; st != nil && st.Appended == 0 {
			delete(by, id)
		}
	}
	return err
}

func addTotal(st *store.TopicStats, what int, n int64) {
	totals := [...]*int64{
		tallyAppended: &st.Appended, tallyAcked: &st.Acked, tallyCancelled: &st.Cancelled, tallyPurged: &st.Purged,
		tallyDuplicates: &st.Duplicates, tallyRetried: &st.Retried, tallyRescues: &st.Rescues,
	}
	*totals[what] += n
}

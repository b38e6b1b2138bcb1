package sqlite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

const (
	selectTotals = `SELECT topic, appended, acked, cancelled, purged, duplicates, retried, rescues, last_ack
		FROM pawl_total`
	countDead   = `SELECT topic, count(*) - count(resolved), count(resolved) FROM pawl_dead GROUP BY topic`
	countLeased = `SELECT topic, sum(n), sum(CASE WHEN ? - started > (hard - started) / 2 THEN n ELSE 0 END) FROM (
		SELECT topic, started, hard, CASE WHEN lane > 0 THEN 1
			ELSE (SELECT count(*) FROM pawl_msg m WHERE m.lane = l.lane AND m.lane < 0 AND m.seq <= l.last) END AS n
		FROM pawl_lease l) GROUP BY topic`
	countDelayed = `SELECT topic, count(*) FROM pawl_closed c WHERE at > ?
		AND (lane > 0 OR EXISTS (SELECT 1 FROM pawl_msg m WHERE m.lane = c.lane AND m.lane < 0)) GROUP BY topic`
	// The first message of a lane has waited longest, or, if it is leased or
	// delayed, the one behind.
	headVisible = `SELECT m.enqueued + m.hidden FROM pawl_slot s CROSS JOIN pawl_msg m ON m.seq = s.seq
		WHERE s.topic = ? AND s.suspect = ? ORDER BY s.rank, s.seq LIMIT 1`
	oldestOpen = `SELECT min(m.enqueued + m.hidden) FROM pawl_slot s CROSS JOIN pawl_msg m ON m.seq = s.seq
		WHERE s.topic = ?1 AND s.suspect IN (0, 2, 3, 4) AND s.rank <= ?2`
	oldestBehind = `SELECT min(m.enqueued + m.hidden) FROM (
		SELECT l.lane, l.last FROM pawl_lease l WHERE l.topic = ?1 AND l.lane < 0
		UNION ALL SELECT c.lane, (SELECT min(f.seq) FROM pawl_msg f WHERE f.lane = c.lane AND f.lane < 0)
			FROM pawl_closed c WHERE c.topic = ?1 AND c.lane < 0 AND c.at > ?2) b
		CROSS JOIN pawl_msg m ON m.seq = (SELECT min(n.seq) FROM pawl_msg n WHERE n.lane = b.lane AND n.lane < 0 AND n.seq > b.last)`
	// A retry at the tail may be older than what is before it.
	oldestTried = `SELECT min(m.enqueued + m.hidden) FROM pawl_tried t CROSS JOIN pawl_msg m ON m.seq = t.seq
		WHERE m.topic = ?1 AND m.lane < 0
			AND NOT EXISTS (SELECT 1 FROM pawl_lease l WHERE l.lane = m.lane AND m.seq <= l.last)
			AND NOT EXISTS (SELECT 1 FROM pawl_closed c WHERE c.lane = m.lane AND c.at > ?2
				AND m.seq = (SELECT min(f.seq) FROM pawl_msg f WHERE f.lane = m.lane AND f.lane < 0))`
)

// Stats implements [store.Topics].
func (s *registry) Stats(ctx context.Context, names ...string) (all []store.TopicStats, err error) {
	err = s.read(ctx, "stats", func(k *work) error {
		by, err := looks{k}.figures(names)
		all = sqlstore.SortStats(by)
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// figures are those of all topics, or of those named, by number.
func (k looks) figures(names []string) (map[int64]*store.TopicStats, error) {
	by := map[int64]*store.TopicStats{}
	for _, t := range k.topics.byName {
		if len(names) > 0 && !slices.Contains(names, t.Name) {
			continue
		}
		by[t.number] = &store.TopicStats{Topic: t.Topic}
		if t.paused(k.now) {
			by[t.number].Paused = t.pause
		}
	}
	count := func(query string, set func(*store.TopicStats, row), args ...any) error {
		return k.db.query(query, func(r row) error {
			if st := by[r.int(0)]; st != nil {
				set(st, r)
			}
			return nil
		}, args...)
	}
	err := cmp.Or(
		count(selectTotals, func(st *store.TopicStats, r row) {
			st.Appended, st.Acked, st.Cancelled, st.Purged = r.int(1), r.int(2), r.int(3), r.int(4)
			st.Duplicates, st.Retried, st.Rescues, st.LastAck = r.int(5), r.int(6), r.int(7), moment(r.int(8))
		}),
		count(countDead, func(st *store.TopicStats, r row) { st.Dead, st.Resolved = r.int(1), r.int(2) }),
		count(countLeased, func(st *store.TopicStats, r row) { st.Leased, st.Stuck = r.int(1), r.int(2) }, k.now),
		count(countDelayed, func(st *store.TopicStats, r row) { st.Delayed = r.int(1) }, k.now),
	)
	for number, st := range by {
		if err == nil {
			st.Deaths, err = deaths(k).deathsIn(number)
		}
		if sqlstore.Waiting(st) > 0 && err == nil {
			st.OldestWaiting, err = k.oldest(number, st.Topic)
		}
	}
	return by, err
}

// oldest is how long the oldest waiting message of a topic has been visible.
func (k looks) oldest(number int64, topic store.Topic) (time.Duration, error) {
	visible := int64(never)
	for _, suspect := range suspicions() {
		cols, ok, err := first(k.db, headVisible, number, suspect)
		if err != nil {
			return 0, err
		}
		if ok {
			visible = min(visible, cols[0])
		}
	}
	// Whatever is older than the best has a rank below this.
	limit := int64(never)
	if visible < never {
		limit = visible + store.ToCap(0, topic.Ageing)
	}
	older := func(query string, arg int64) error {
		return k.db.query(query, func(r row) error {
			if r[0] != nil {
				visible = min(visible, r.int(0))
			}
			return nil
		}, number, arg)
	}
	err := cmp.Or(older(oldestOpen, limit), older(oldestBehind, k.now))
	if topic.Tail {
		err = cmp.Or(err, older(oldestTried, k.now))
	}
	if err != nil || visible == never {
		return 0, err
	}
	return time.Duration(k.now-visible) * time.Microsecond, nil
}

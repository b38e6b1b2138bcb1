package postgres

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// messageColumns are the columns that all tables of messages have in common.
const messageColumns = `m.id, m.topic, m.prio, m.replays, m.rank, m.vis, m.key, m.meta, m.body`

// liveRecords: $1 lanes, $2 seqs.
const liveRecords = `
SELECT ` + messageColumns + `, t.attempts, t.rescues, t.lonely, t.reason,
	(SELECT array_agg(a.data ORDER BY a.n) FROM @attempt a WHERE a.seq = m.seq) AS history,
	m.lane, m.seq, l.token, l.until, l.first, l.last,
	l.token = 0 AND m.lane < 0 AND EXISTS (SELECT FROM @msg h WHERE h.lane = m.lane AND h.seq < m.seq) AS behind,
	c.fence, c.owner, c.started, c.hard, c.ends, c.longer, c.longer_until, t.throttles, t.throttled
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY x(lane, seq, n)
CROSS JOIN LATERAL (SELECT * FROM @msg m WHERE m.lane = x.lane AND m.seq = x.seq) m
LEFT JOIN LATERAL (SELECT * FROM @tried t WHERE t.seq = m.seq) t ON true
LEFT JOIN LATERAL (SELECT * FROM @lease l WHERE l.lane = m.lane) l ON true
LEFT JOIN LATERAL (
	SELECT * FROM @claim c WHERE m.lane < 0 AND c.fence = l.token AND m.seq BETWEEN l.first AND l.last AND (l.run IS NULL OR m.seq = ANY (l.run))
	UNION ALL
	SELECT * FROM @claim c WHERE m.lane > 0 AND l.token IS NULL AND m.lane = ANY (c.lanes) AND m.lane <> ALL (coalesce(c.gone, '{}'))
	LIMIT 1) c ON true
ORDER BY x.n`

const (
	findLive    = `SELECT lane, seq FROM @msg WHERE id = $1::bytea`
	deadColumns = messageColumns +
		`, m.attempts, m.rescues, m.lonely, m.reason, m.history, m.dead_at, m.kind, m.fingerprint, m.n,
		m.resolved_at, m.resolved_by, m.note`
	findDead = `SELECT ` + deadColumns + ` FROM @dead m WHERE m.id = $1::bytea`
	// listAcked: $1 topic (0: any), $2 key (empty: any), $3 skew, $4 limit, and after which topic, rank and seq:
	// $5, $6, $7.
	listAcked = `SELECT ` + messageColumns + `, t.attempts, t.rescues, t.lonely, t.reason,
		(SELECT array_agg(a.data ORDER BY a.n) FROM @attempt a WHERE a.seq = m.seq), m.acked_at, n.at, m.seq
		FROM (SELECT clock_timestamp() + $3::interval AS at) n CROSS JOIN @acked m JOIN @topic o ON o.id = m.topic
		LEFT JOIN @tried t ON t.seq = m.seq
		WHERE ($1::int = 0 OR m.topic = $1::int) AND ($2::bytea = '' OR m.key = $2::bytea) AND m.until > n.at
			AND (o.name > $5::text COLLATE "C" OR o.name = $5::text AND (m.rank, m.seq) > ($6::bigint, $7::bigint))
		ORDER BY o.name COLLATE "C", m.rank, m.seq LIMIT $4::bigint`
	findAcked = `SELECT ` + messageColumns + `, t.attempts, t.rescues, t.lonely, t.reason,
		(SELECT array_agg(a.data ORDER BY a.n) FROM @attempt a WHERE a.seq = m.seq), m.acked_at
		FROM @acked m LEFT JOIN @tried t ON t.seq = m.seq
		WHERE m.id = $1::bytea AND m.until > (SELECT clock_timestamp() + $2::interval) ORDER BY m.acked_at DESC LIMIT 1`
)

// readBare reads messageColumns.
func (s *inspector) readBare(r row) (rec store.Record, err error) {
	rec.ID = r.messageID(0)
	if t := s.topics.numbered(r.id(1)); t != nil {
		rec.Topic = t.Name
	}
	rec.Priority, rec.Replays, rec.Rank = r.int2(2), r.int2(3), r.int8(4)
	rec.Key, rec.Body = keyOf(r.bytes(6)), r.bytes(8)
	enqueued, err := decodeMeta(&rec.Message, r[7], r.micros(5))
	if err != nil {
		return rec, err
	}
	rec.EnqueuedAt = moment(enqueued)
	return rec, nil
}

// readRecord reads messageColumns and the five after them.
func (s *inspector) readRecord(r row) (rec store.Record, err error) {
	rec, err = s.readBare(r)
	if err != nil {
		return rec, err
	}
	rec.Attempts, rec.Rescues, rec.Lonely, rec.Reason = r.int4(9), r.int4(10), r.int4(11), r.text(12)
	if rec.Reason == "" {
		rec.Reason = store.CauseAppended
		if rec.Replays > 0 {
			rec.Reason = store.CauseReplayed
		}
	}
	for _, text := range r.texts(13) {
		a, err := sqlstore.DecodeAttempt([]byte(text))
		if err != nil {
			return rec, err
		}
		rec.History = append(rec.History, a)
	}
	return rec, nil
}

func (s *inspector) readLive(r row) (store.Record, error) {
	rec, err := s.readRecord(r)
	lane, seq := r.int8(14), r.int8(15)
	rec.Throttles, rec.ThrottledSince = r.int4(28), r.time(29)
	switch {
	case !r.null(21):
		until := r.micros(25)
		ends := r.timesMicros(27)
		for i, longer := range r.int8s(26) {
			if longer == lane {
				until = max(until, ends[i])
			}
		}
		rec.State = store.Leased
		rec.Lease = &store.LeaseRecord{
			Owner: r.text(22), Token: pawl.Token{Fence: r.int8(21), Lane: lane, Seq: seq},
			StartedAt: r.time(23), Until: moment(until), Deadline: r.time(24),
		}
	case !r.null(16) && r.int8(16) <= 0 && !r.bool(20):
		rec.State, rec.NotBefore = store.Delayed, r.time(17)
	default:
		rec.State = store.Waiting
	}
	return rec, err
}

func (s *inspector) readDead(r row) (store.Record, error) {
	rec, err := s.readRecord(r)
	rec.State, rec.DeadAt, rec.Kind, rec.Fingerprint = store.IsDead, r.time(14), pawl.Kind(r.text(15)), r.text(16)
	rec.Resolved = resolution(r, 18)
	return rec, err
}

func (s *inspector) readAcked(r row) (store.Record, error) {
	rec, err := s.readRecord(r)
	rec.State, rec.AckedAt = store.Acked, r.time(14)
	return rec, err
}

// Get implements [store.Inspector].
func (s *inspector) Get(ctx context.Context, id string) (store.Record, error) {
	if err := s.guard(ctx, "get", s.catchUp); err != nil {
		return store.Record{}, err
	}
	var all []store.Record
	eid := sqlstore.EncodeID(id)
	err := s.cold(ctx, "get", func(ctx context.Context, t *tx) error {
		var lanes, seqs []int64
		all = nil
		err := t.run(ctx, read(findLive, func(r row) error {
			lanes, seqs = append(lanes, r.int8(0)), append(seqs, r.int8(1))
			return nil
		}, eid), read(findDead, collect(&all, s.readDead), eid),
			read(findAcked, collect(&all, s.readAcked), eid, s.skewValue()))
		if err != nil || len(lanes) == 0 {
			return err
		}
		all = nil
		return t.run(ctx, read(liveRecords, collect(&all, s.readLive), int8Array(lanes), int8Array(seqs)))
	})
	if err != nil {
		return store.Record{}, err
	}
	if len(all) == 0 {
		return store.Record{}, notFound("message", id)
	}
	return all[0], nil
}

// catchUp loads all topics and processes everything due, give or take [sweepEvery]: there may
// be no worker whose claims do that. If that fails, or takes long, messages are shown as they
// are.
func (s *inspector) catchUp(ctx context.Context) error {
	if err := s.registry.loadTopics(ctx); err != nil {
		return err
	}
	if s.cfg.Look {
		return nil
	}
	soon, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	_ = s.upkeep.sweepIfDue(soon)
	return nil
}

// cold runs look-ups in one transaction, with the planner's full choice, as one call; see guard.
func (s *inspector) cold(ctx context.Context, op string, do func(context.Context, *tx) error) error {
	return s.guard(ctx, op, func(ctx context.Context) error {
		return s.within(ctx, s.front, coldSettings, func(t *tx) error { return do(ctx, t) })
	})
}

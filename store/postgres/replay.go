package postgres

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// letters carries out the operations on dead letters.
type letters struct {
	*core
	listener  *listener
	upkeep    *upkeep
	inspector *inspector
	registry  *registry
}

const (
	lockDead = `SELECT d.id, d.n, d.topic, d.prio, d.key, d.uniq, d.meta, d.vis FROM unnest($1::bytea[]) x(id)
		CROSS JOIN LATERAL (SELECT * FROM @dead d WHERE d.id = x.id FOR UPDATE) d`
	isDue = `SELECT EXISTS (SELECT FROM @lease WHERE token = -1 AND until <= (SELECT clock_timestamp() + $1::interval))`
	// retake takes a unique key again; no row: another message has it.
	retake = `INSERT INTO @uniq AS q (k, id, until) VALUES ($1::bytea, $2::bytea, NULL)
		ON CONFLICT (k) DO UPDATE SET id = excluded.id, until = NULL
			WHERE q.until <= (SELECT clock_timestamp() + $3::interval) OR q.id = excluded.id RETURNING 1`
	lockPurged = `SELECT FROM unnest($1::bytea[]) x(id) CROSS JOIN LATERAL (SELECT * FROM @dead d WHERE d.id = x.id FOR UPDATE) d`
	purge      = `WITH d AS (DELETE FROM @dead WHERE id = ANY ($1::bytea[]) RETURNING id, topic),
		y AS (INSERT INTO @tally (topic, what, n) SELECT topic, 4, count(*) FROM d GROUP BY topic)
		SELECT id FROM d`
)

// revive appends dead letters to the tail of their lanes, in the order of $1: numbers, topics,
// lanes of their keys (0: none), other fields, unique keys, and $7 whether attempts are kept.
var revive = `
WITH b AS MATERIALIZED (SELECT clock_timestamp() + $5::interval AS at),
n AS MATERIALIZED (
	SELECT nextval('@msg_seq') AS seq, d.id, x.topic, d.prio, least(d.replays::int + 1, 32767)::smallint AS replays, d.key, x.uniq, x.meta, d.body, b.at AS vis,
		` + sqlstore.Rank("(extract(epoch FROM b.at) * 1000000)::bigint", "d.prio", "t.ageing") + ` AS rank,
		CASE WHEN d.key <> '' AND t.ordered THEN x.lane END AS home, d.history, d.n,
		CASE WHEN $7::bool THEN d.attempts ELSE 0 END AS attempts
	FROM b, unnest($1::bigint[], $2::int[], $3::bigint[], $4::text[], $6::bytea[]) x(n, topic, lane, meta, uniq)
	CROSS JOIN LATERAL (SELECT * FROM @dead d WHERE d.n = x.n OFFSET 0) d
	CROSS JOIN LATERAL (SELECT * FROM @topic t WHERE t.id = x.topic OFFSET 0) t),
m AS (INSERT INTO @msg (lane, seq, rank, vis, topic, prio, replays, id, key, uniq, meta, body)
	SELECT coalesce(home, seq), seq, rank, vis, topic, prio, replays, id, key, uniq, meta, body FROM n),
s AS (INSERT INTO @slot (band, rank, seq, lane) SELECT topic * 512::bigint + 128 + prio, rank, seq, home FROM n),
t AS (INSERT INTO @tried (seq, lane, attempts, rescues, lonely, reason, seen) SELECT seq, coalesce(home, seq), attempts, 0, 0, '', false FROM n),
a AS (INSERT INTO @attempt (seq, n, data) SELECT n.seq, h.i, h.data FROM n CROSS JOIN LATERAL unnest(n.history) WITH ORDINALITY h(data, i))
DELETE FROM @dead WHERE n = ANY ($1::bigint[])`

// Replay implements [store.DeadLetters].
func (s *letters) Replay(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	return s.replayAll(ctx, topic, false, ids)
}

func (s *letters) replayAll(ctx context.Context, topic string, keep bool, ids []string) (map[string]error, error) {
	if topic != "" {
		if err := pawl.ValidTopic(topic); err != nil {
			return nil, err
		}
	}
	r := &replaying{letters: s, to: topic, keep: keep, ids: sqlstore.Distinct(ids)}
	if err := s.guard(ctx, "replay", r.run); err != nil {
		return nil, err
	}
	return r.refused, nil
}

// replaying is a call of Replay.
type replaying struct {
	*letters
	to      string
	keep    bool // the attempts
	ids     []string
	refused map[string]error

	numbers, lanes []int64
	topics         []int32
	metas, names   []string
	uniqs          [][]byte
	prios          []int16
	writing
}

// deadMessage has the fields of a dead letter that a replay needs.
type deadMessage struct {
	id    string
	n     int64
	topic int32
	prio  int
	key   []byte
	uniq  []byte
	meta  []byte
	vis   int64
}

func (r *replaying) run(ctx context.Context) error {
	if err := r.inspector.catchUp(ctx); err != nil {
		return err
	}
	if r.to != "" {
		if err := r.registry.create(ctx, r.to, true, false); err != nil {
			return err
		}
		if err := r.registry.loadTopics(ctx); err != nil {
			return err
		}
	}
	err := r.within(ctx, r.front, nil, func(t *tx) error { return r.revive(ctx, t, true) })
	if errors.Is(err, errDue) {
		if err = r.upkeep.promote(ctx); err == nil {
			err = r.within(ctx, r.front, nil, func(t *tx) error { return r.revive(ctx, t, false) })
		}
	}
	if err == nil {
		r.listener.wake(r.topics...)
	}
	return err
}

func readDeadMessage(r row) (deadMessage, error) {
	return deadMessage{
		id: r.messageID(0), n: r.int8(1), topic: r.id(2), prio: r.int2(3),
		key: r.bytes(4), uniq: r.bytes(5), meta: r.bytes(6), vis: r.micros(7),
	}, nil
}

func (r *replaying) revive(ctx context.Context, t *tx, checkDue bool) error {
	r.refused, r.numbers, r.lanes, r.topics, r.metas, r.names, r.uniqs, r.prios, r.writing =
		map[string]error{}, nil, nil, nil, nil, nil, nil, nil, writing{}
	found, err := query(ctx, t, readDeadMessage, lockDead, sortedIDs(r.ids))
	if err != nil {
		return err
	}
	byID := make(map[string]*deadMessage, len(found))
	for i := range found {
		if err := r.rekey(&found[i]); err != nil {
			return err
		}
		byID[found[i].id] = &found[i]
	}
	if err := r.retake(ctx, t, byID); err != nil {
		return err
	}
	for _, id := range r.ids {
		if r.refused[id] != nil {
			continue
		}
		c := byID[id]
		if c == nil {
			r.refused[id] = notFound("replay", id)
			continue
		}
		delete(byID, id)
		if err := r.add(c); err != nil {
			return err
		}
	}
	if len(r.numbers) == 0 {
		return nil
	}
	g := group{do(insertBands, textArray(r.names), int2Array(r.prios)),
		do(shareOrder, r.orderClass(), int4Array(r.topics))}
	if checkDue {
		due := false
		err := t.run(ctx, append(g, read(isDue, set(&due, row.bool), r.skewValue()))...)
		if err == nil && due {
			err = errDue
		}
		if err != nil {
			return err
		}
		g = nil
	}
	g = append(g, do(revive, int8Array(r.numbers), int4Array(r.topics), int8Array(r.lanes), textArray(r.metas),
		r.skewValue(),
		bytesArray(r.uniqs), boolValue(r.keep)))
	return t.run(ctx, append(g, r.tally()...)...)
}

// rekey makes the unique key of a letter that of the topic that it goes to.
func (r *replaying) rekey(c *deadMessage) error {
	if r.to == "" || len(c.uniq) == 0 {
		return nil
	}
	m := pawl.Message{ID: c.id, Topic: r.to}
	if _, err := decodeMeta(&m, c.meta, c.vis); err != nil {
		return err
	}
	c.uniq = uniqueKey(&m)
	return nil
}

// retake takes the unique keys again, in their order, so that two calls never
// wait for each other; of two letters with one key the first of the call has it.
func (r *replaying) retake(ctx context.Context, t *tx, byID map[string]*deadMessage) error {
	var unique []*deadMessage
	for _, id := range r.ids {
		if c := byID[id]; c != nil && len(c.uniq) > 0 {
			unique = append(unique, c)
		}
	}
	slices.SortStableFunc(unique, func(a, b *deadMessage) int { return bytes.Compare(a.uniq, b.uniq) })
	for _, c := range unique {
		var free []int
		err := t.run(ctx, read(retake, add(&free, row.int4), c.uniq, sqlstore.EncodeID(c.id), r.skewValue()))
		if err != nil {
			return err
		}
		if len(free) == 0 {
			r.refused[c.id] = &store.Error{Op: "replay " + c.id, Code: store.ErrConflict,
				Hint: "another message has its unique key"}
		}
	}
	return nil
}

func (r *replaying) add(c *deadMessage) error {
	var m pawl.Message
	enqueued, err := decodeMeta(&m, c.meta, c.vis)
	if err != nil {
		return err
	}
	to := r.core.topics.numbered(c.topic)
	if r.to != "" && (to == nil || to.Name != r.to) {
		r.count(c.topic, tallyPurged, 1)
		to = r.core.topics.named(r.to)
		r.count(to.id, tallyAppended, 1)
	}
	if to == nil {
		return unexpected("a dead letter of a topic that is gone")
	}
	r.numbers, r.topics = append(r.numbers, c.n), append(r.topics, to.id)
	r.names, r.prios = append(r.names, to.Name), append(r.prios, int16(c.prio))
	r.lanes = append(r.lanes, sqlstore.KeyLane(int64(to.id), c.key))
	r.metas, r.uniqs = append(r.metas, encodeMeta(&m, enqueued)), append(r.uniqs, c.uniq)
	return nil
}

// Purge implements [store.DeadLetters].
func (s *letters) Purge(ctx context.Context, ids ...string) (map[string]error, error) {
	return s.eachDead(ctx, "purge", ids, purge)
}

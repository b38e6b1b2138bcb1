package postgres

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/fingerprint"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// writing collects the rows that a transaction writes about messages of lanes that it has
// locked, so that all of them are sent at once.
type writing struct {
	at int64 // the store's time, in microseconds

	tried struct {
		seq, lane                 []int64
		attempts, rescues, lonely []int32
		reason                    []string
		rescued                   []int64 // 0: not now
	}
	attempts struct {
		seq  []int64
		data []string
	}
	throttled struct{ more, over []int64 } // retries that were throttled, and failures after such
	acked     struct{ lane, seq []int64 }
	dead      struct {
		lane, seq                 []int64
		kind, reason, fingerprint []string
	}
	closed struct{ lane, token, until []int64 } // lanes of keys
	put    struct{ seq, until []int64 }         // messages that wait by themselves
	toTail struct{ lane, seq, until []int64 }   // messages that leave their lanes, and join them again then
	emits  []*inserting

	cut                   []int64 // lanes of keys whose run ends before its end
	openLanes, openTokens []int64
	openSolo              []int64
	leave                 map[int64][]int64 // lanes off their claims, by fence
	drop                  []int64           // claims
	figures               map[figure]int64
	deaths                map[who]int64 // beside other work, and when
	more                  []step
	woken                 []int32 // topics, by the steps
}

type figure struct {
	topic int32
	what  int16
}

const (
	writeTried = `INSERT INTO @tried AS t (seq, lane, attempts, rescues, lonely, reason, rescued, seen)
		SELECT x.*, true FROM unnest($1::bigint[], $2::bigint[], $3::int[], $4::int[], $5::int[], $6::text[], $7::timestamptz[]) x
		ON CONFLICT (seq) DO UPDATE SET seen = true, attempts = excluded.attempts, rescues = excluded.rescues, lonely = excluded.lonely, reason = excluded.reason,
			rescued = coalesce(nullif(excluded.rescued, 'epoch'), t.rescued)`
	writeAttempts = `INSERT INTO @attempt (seq, n, data) SELECT x.seq, coalesce(a.n, 0) + 1, x.data FROM unnest($1::bigint[], $2::text[]) x(seq, data)
		CROSS JOIN LATERAL (SELECT max(a.n) AS n FROM @attempt a WHERE a.seq = x.seq) a`
	// addThrottles counts throttled retries, and trimThrottles forgets the oldest
	// records of such: $2 what those contain, $3 how many are kept.
	addThrottles = `UPDATE @tried t SET throttles = t.throttles + 1, throttled = coalesce(t.throttled, $2::timestamptz)
		WHERE t.seq = ANY ($1::bigint[])`
	endThrottles  = `UPDATE @tried t SET throttles = 0, throttled = NULL WHERE t.seq = ANY ($1::bigint[])`
	trimThrottles = `DELETE FROM @attempt d USING (
			SELECT a.seq, a.n, row_number() OVER (PARTITION BY a.seq ORDER BY a.n DESC) AS at FROM unnest($1::bigint[]) x(seq)
			CROSS JOIN LATERAL (SELECT a.seq, a.n FROM @attempt a WHERE a.seq = x.seq AND position($2::text IN a.data) > 0 OFFSET 0) a) o
		WHERE d.seq = o.seq AND d.n = o.n AND o.at > $3::int`
	// ackLocked acks messages of locked lanes and claims.
	ackLocked = `
WITH now AS MATERIALIZED (SELECT clock_timestamp() + $3::interval AS at),
d AS (DELETE FROM @msg WHERE ctid = ANY (ARRAY(
		SELECT m.ctid FROM unnest($1::bigint[], $2::bigint[]) s(lane, seq)
		CROSS JOIN LATERAL (SELECT m.ctid FROM @msg m WHERE m.lane = s.lane AND m.seq = s.seq OFFSET 0) m))
	RETURNING *),
` + ackCommon + `
e AS (SELECT 1)
SELECT FROM e`
	// moveToDead moves messages to the dead letters, with everything that is known of them. An
	// id that has a letter already was imported while the message was alive. That letter stays
	// as it is, and the message counts as purged: otherwise it would hold up everything else in
	// its transaction.
	moveToDead = `
WITH x AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[]) x(lane, seq, kind, reason, fingerprint)),
i AS (INSERT INTO @dead (n, id, lane, rank, vis, topic, prio, replays, key, uniq, meta, body, attempts, rescues, lonely, dead_at, kind, reason, fingerprint, history)
	SELECT nextval('@dead_seq'), m.id, least(m.lane, 0), m.rank, m.vis, m.topic, m.prio, m.replays, m.key, m.uniq, m.meta, m.body,
		coalesce(t.attempts, 0), coalesce(t.rescues, 0), coalesce(t.lonely, 0), $6::timestamptz, x.kind, x.reason, x.fingerprint, coalesce(a.history, '{}')
	FROM x CROSS JOIN LATERAL (SELECT * FROM @msg m WHERE m.lane = x.lane AND m.seq = x.seq OFFSET 0) m
	LEFT JOIN LATERAL (SELECT * FROM @tried t WHERE t.seq = x.seq OFFSET 0) t ON true
	CROSS JOIN LATERAL (SELECT array_agg(a.data ORDER BY a.n) AS history FROM @attempt a WHERE a.seq = x.seq) a
	ON CONFLICT (id) DO NOTHING RETURNING id),
d AS MATERIALIZED (SELECT m.uniq, m.id, m.topic FROM x CROSS JOIN LATERAL (SELECT * FROM @msg m WHERE m.lane = x.lane AND m.seq = x.seq OFFSET 0) m),
y AS (INSERT INTO @tally (topic, what, n) SELECT topic, 4, count(*) FROM d WHERE id NOT IN (SELECT id FROM i) GROUP BY topic),
` + dropUniques + `,
t AS (DELETE FROM @tried WHERE seq = ANY ($2::bigint[])),
a AS (DELETE FROM @attempt WHERE seq = ANY ($2::bigint[]))
DELETE FROM @msg WHERE ctid = ANY (ARRAY(SELECT m.ctid FROM x
	CROSS JOIN LATERAL (SELECT m.ctid FROM @msg m WHERE m.lane = x.lane AND m.seq = x.seq OFFSET 0) m))`
	// markRest notes that the rest of runs was given out.
	markRest = `INSERT INTO @tried AS t (seq, lane, attempts, rescues, lonely, reason, seen)
		SELECT m.seq, m.lane, 0, 0, 0, '', true FROM unnest($1::bigint[]) x(lane)
		CROSS JOIN LATERAL (SELECT * FROM @lease l WHERE l.lane = x.lane OFFSET 0) l
		CROSS JOIN LATERAL (SELECT m.seq, m.lane FROM @msg m WHERE m.lane = l.lane AND m.seq BETWEEN l.first AND l.last
			AND (l.run IS NULL OR m.seq = ANY (l.run)) OFFSET 0) m
		ON CONFLICT (seq) DO UPDATE SET seen = true`
	// closeLanes keeps lanes of keys closed until then.
	closeLanes = `UPDATE @lease l SET token = 0, until = s.until, reach = 9223372036854775807
		FROM (SELECT l.ctid AS tid, s.until FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[]) s(lane, token, until)
			CROSS JOIN LATERAL (SELECT l.ctid FROM @lease l WHERE l.lane = s.lane AND l.token = s.token OFFSET 0) l) s
		WHERE l.ctid = s.tid`
	// putOff lets messages that are lanes of their own wait.
	putOff = `INSERT INTO @lease (lane, token, reach, first, last, until)
		SELECT s.seq, 0, 9223372036854775807, s.seq, s.seq, s.until FROM unnest($1::bigint[], $2::timestamptz[]) s(seq, until)`
	// moveToTail makes messages delayed ones. When they are back, they no longer count as given
	// out before: others may come in before them.
	moveToTail = `
WITH x AS MATERIALIZED (SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[]) x(lane, seq, until)),
m AS (UPDATE @msg SET lane = seq WHERE ctid = ANY (ARRAY(SELECT m.ctid FROM x
	CROSS JOIN LATERAL (SELECT m.ctid FROM @msg m WHERE m.lane = x.lane AND m.seq = x.seq OFFSET 0) m))),
t AS (UPDATE @tried SET lane = seq, seen = false WHERE seq = ANY ($2::bigint[]))
INSERT INTO @lease (lane, token, reach, first, last, until) SELECT seq, -1, 9223372036854775807, seq, seq, until FROM x`
	writeTally = `INSERT INTO @tally (topic, what, n) SELECT * FROM unnest($1::int[], $2::smallint[], $3::bigint[])`
)

func (w *writing) try(lane, seq int64, attempts, rescues, lonely int, reason string, rescued int64) {
	t := &w.tried
	t.seq, t.lane = append(t.seq, seq), append(t.lane, lane)
	t.attempts, t.rescues, t.lonely = append(t.attempts, int32(attempts)), append(t.rescues, int32(rescues)),
		append(t.lonely, int32(lonely))
	t.reason, t.rescued = append(t.reason, reason), append(t.rescued, rescued)
}

func (w *writing) record(seq int64, a store.Attempt) {
	w.attempts.seq = append(w.attempts.seq, seq)
	w.attempts.data = append(w.attempts.data, string(sqlstore.EncodeAttempt(a)))
}

// fail records a failed attempt; throttles is how often the message was throttled before.
func (w *writing) fail(seq int64, a *store.Attempt, throttles int) {
	w.record(seq, *a)
	if a.Throttled {
		w.throttled.more = append(w.throttled.more, seq)
	} else if throttles > 0 {
		w.throttled.over = append(w.throttled.over, seq)
	}
}

func (w *writing) makeDead(lane, seq int64, kind pawl.Kind, reason string) {
	b := &w.dead
	b.lane, b.seq = append(b.lane, lane), append(b.seq, seq)
	b.kind, b.reason = append(b.kind, store.Text(string(kind))), append(b.reason, reason)
	b.fingerprint = append(b.fingerprint, fingerprint.Of(kind, reason))
}

func (w *writing) count(topic int32, what int16, n int64) {
	if w.figures == nil {
		w.figures = map[figure]int64{}
	}
	w.figures[figure{topic, what}] += n
}

// steps are the statements, in the one order that is right: attempts before
// deaths, deaths and acks before lanes open, lanes before claims go.
func (w *writing) steps(s *core) (g group) {
	if t := &w.tried; len(t.seq) > 0 {
		g = append(g, do(writeTried, int8Array(t.seq), int8Array(t.lane), int4Array(t.attempts), int4Array(t.rescues),
			int4Array(t.lonely), textArray(t.reason), timeArray(t.rescued)))
	}
	if a := &w.attempts; len(a.seq) > 0 {
		g = append(g, do(writeAttempts, int8Array(a.seq), textArray(a.data)))
	}
	if more := w.throttled.more; len(more) > 0 {
		g = append(g, do(addThrottles, int8Array(more), timeValue(w.at)),
			do(trimThrottles, int8Array(more), textValue(sqlstore.MarkThrottled), int4Value(store.KeptThrottles)))
	}
	if over := w.throttled.over; len(over) > 0 {
		g = append(g, do(endThrottles, int8Array(over)))
	}
	if a := &w.toTail; len(a.seq) > 0 {
		g = append(g, do(moveToTail, int8Array(a.lane), int8Array(a.seq), timeArray(a.until)))
	}
	if a := &w.acked; len(a.seq) > 0 {
		g = append(g, do(ackLocked, int8Array(a.lane), int8Array(a.seq), s.skewValue()))
	}
	if b := &w.dead; len(b.seq) > 0 {
		g = append(g, do(moveToDead, int8Array(b.lane), int8Array(b.seq), textArray(b.kind), textArray(b.reason),
			textArray(b.fingerprint), timeValue(w.at)))
	}
	for fence, lanes := range w.leave {
		g = append(g, do(leave, int8Value(fence), int8Array(lanes)))
	}
	if len(w.cut) > 0 {
		g = append(g, do(markRest, int8Array(w.cut)))
	}
	if c := &w.closed; len(c.lane) > 0 {
		g = append(g, do(closeLanes, int8Array(c.lane), int8Array(c.token), timeArray(c.until)))
	}
	if p := &w.put; len(p.seq) > 0 {
		g = append(g, do(putOff, int8Array(p.seq), timeArray(p.until)))
	}
	if len(w.openLanes) > 0 {
		g = append(g, read(openLanes, add(&w.woken, row.id), int8Array(w.openLanes), int8Array(w.openTokens)))
	}
	if len(w.openSolo) > 0 {
		g = append(g, read(ticketSolo, add(&w.woken, row.id), int8Array(w.openSolo)))
	}
	g = append(g, w.more...)
	if len(w.drop) > 0 {
		g = append(g, do(dropClaims, int8Array(w.drop)))
	}
	return slices.Concat(g, w.tally(), w.deathsStep())
}

func (w *writing) tally() group {
	if len(w.figures) == 0 {
		return nil
	}
	var topics []int32
	var whats []int16
	var ns []int64
	for f, n := range w.figures {
		topics, whats, ns = append(topics, f.topic), append(whats, f.what), append(ns, n)
	}
	return group{do(writeTally, int4Array(topics), int2Array(whats), int8Array(ns))}
}

// held is a lane of a key and the token it is held by.
type held struct{ lane, token int64 }

// sortedLanes puts lanes into the order in which everybody locks.
func sortedLanes(hs []held) (lanes, tokens []int64) {
	slices.SortFunc(hs, func(a, b held) int { return cmp.Compare(a.lane, b.lane) })
	for _, h := range hs {
		lanes, tokens = append(lanes, h.lane), append(tokens, h.token)
	}
	return lanes, tokens
}

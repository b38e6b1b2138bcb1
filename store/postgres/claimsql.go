package postgres

// The statements of a claim. Two of them are sent together: the first takes tickets and writes
// down the claim, the second, with a snapshot of its own, reads the present contents of the
// lanes: an older snapshot would show messages that were acked meanwhile. They are two
// transactions, so that settlements and claims in the same lanes do not wait for the reading.

// takeTickets and takeOnePriority: $1 topic, $2 how many, $3 fence, $4 lease in
// microseconds, $5 owner, $6 alone, $7 skew, $8 bands and $9 their floors.
//
// A ticket for a busy lane is dropped and its holder told (reach), with the lease locked, so
// that it cannot end unseen. A claim does not wait for a lease that another transaction has
// locked: it is probably being settled, until that commit is on disk. The ticket stays where it
// is, and the claim reports that.
const (
	takeTickets     = fromTopic + pickMany + takeLanes
	takeOnePriority = fromTopic + pickFew + takeLanes

	fromTopic = `
WITH t AS MATERIALIZED (
	SELECT t.id, t.version, n.at, n.at + t.deadline / 1000 * interval '1 microsecond' AS hard,
		n.at + least($4::bigint, t.deadline / 1000) * interval '1 microsecond' AS ends
	FROM @topic t, (SELECT clock_timestamp() + $7::interval AS at) n
	WHERE t.id = $1::int AND (t.paused_at IS NULL OR t.pause_until <= n.at)),
suspect AS MATERIALIZED (SELECT FROM t WHERE ` + anySuspect + `),
`
	// validTicket: its message is there and its lane is free.
	validTicket = `EXISTS (SELECT FROM @msg m WHERE m.lane = coalesce(s.lane, s.seq) AND m.seq = s.seq OFFSET 0)
			AND (s.lane IS NULL OR NOT EXISTS (SELECT FROM @lease l WHERE l.lane = s.lane OFFSET 0))`

	// bandsOfTopic are its bands, fresh and again, with their floors.
	bandsOfTopic = `t
	CROSS JOIN LATERAL (SELECT b.prio FROM @band b WHERE b.topic = t.id OFFSET 0) b
	CROSS JOIN (VALUES (0), (128)) g(gen)
	LEFT JOIN unnest($8::bigint[], $9::bigint[]) f(band, floor) ON f.band = $1::bigint * 512 + g.gen + b.prio`
	ticketsOfBand = `SELECT s.ctid AS tid, s.band, s.rank, s.seq, s.lane FROM @slot s
		WHERE s.band = $1::bigint * 512 + g.gen + b.prio AND s.rank >= coalesce(f.floor, -9223372036854775808)
		ORDER BY s.rank, s.seq`

	// pickMany looks at the best tickets of all bands, some more than wanted,
	// because others may lock some of them, and locks the best.
	pickMany = `
look AS MATERIALIZED (
	SELECT x.tid FROM ` + bandsOfTopic + `
	CROSS JOIN LATERAL (` + ticketsOfBand + ` LIMIT $2::bigint * 2) x
	ORDER BY x.rank, x.seq LIMIT $2::bigint * 2),
` + pickTickets
	// pickTickets locks the best of the tickets looked at.
	pickTickets = `
locked AS MATERIALIZED (
	SELECT s.ctid AS tid, s.band, s.rank, s.seq, s.lane FROM @slot s WHERE s.ctid = ANY (ARRAY(SELECT tid FROM look))
	ORDER BY s.rank, s.seq LIMIT $2::bigint FOR UPDATE SKIP LOCKED),
`
	// pickFew locks while it looks, in every band as many as wanted: cheaper, as
	// long as one priority is in use. What it locks and does not pick, others pass
	// over meanwhile; the claim says how far down that was.
	pickFew = `
locked AS MATERIALIZED (
	SELECT x.* FROM ` + bandsOfTopic + `
	CROSS JOIN LATERAL (` + ticketsOfBand + ` LIMIT $2::bigint FOR UPDATE SKIP LOCKED) x
	ORDER BY x.rank, x.seq),
`
	// takeLanes makes the claim of the tickets picked. A fresh ticket whose message
	// went with a run before is spent; one of the generation "again" never is,
	// because it may stand for messages whose own tickets were dropped.
	//
	// k are the tickets of keys that are not spent, e the lanes among them that are
	// busy as far as the snapshot shows, b those whose lease could be locked, l those
	// that are leased now, and stay the rest: of a lane whose lease is locked, or came
	// after the snapshot. A leasing transaction waits only for other leasing ones, all
	// in the order of lanes: a transaction that deletes leases has locked all of them
	// before.
	//
	// Until the run is known it is written down as one from the head of the lane to the
	// message of the ticket: the end of the lease of a claimer that died in between
	// must not treat messages as given out that have others before them.
	takeLanes = `
pick AS MATERIALIZED (SELECT * FROM locked LIMIT $2::bigint),
k AS MATERIALIZED (
	SELECT p.*, coalesce(h.seq, p.seq) AS head
	FROM (SELECT * FROM pick p WHERE p.lane IS NOT NULL
		AND (p.band & 384 > 0 OR EXISTS (SELECT FROM @msg m WHERE m.lane = p.lane AND m.seq = p.seq OFFSET 0)) OFFSET 0) p
	LEFT JOIN LATERAL (SELECT m.seq FROM @msg m WHERE m.lane = p.lane ORDER BY m.seq LIMIT 1) h ON true),
e AS MATERIALIZED (
	SELECT x.lane FROM (SELECT DISTINCT lane FROM k) x WHERE EXISTS (SELECT FROM @lease l WHERE l.lane = x.lane OFFSET 0)),
b AS MATERIALIZED (
	SELECT l.lane FROM e CROSS JOIN LATERAL (SELECT l.lane FROM @lease l WHERE l.lane = e.lane FOR UPDATE SKIP LOCKED) l),
u AS (
	UPDATE @lease SET reach = 9223372036854775807
	WHERE lane = ANY (ARRAY(SELECT lane FROM b)) AND reach <> 9223372036854775807),
l AS (
	INSERT INTO @lease (lane, token, reach, rank, first, last)
	SELECT lane, $3::bigint, CASE WHEN count(*) > 1 OR max(band & 384) > 0 THEN 9223372036854775807 ELSE max(seq) END, max(rank), min(head), max(seq)
	FROM k WHERE lane NOT IN (SELECT lane FROM e) GROUP BY lane ORDER BY lane
	ON CONFLICT (lane) DO NOTHING
	RETURNING lane),
stay AS MATERIALIZED (
	SELECT band, rank, lane FROM k WHERE lane NOT IN (SELECT lane FROM l) AND lane NOT IN (SELECT lane FROM b)),
p AS (
	DELETE FROM @slot WHERE ctid = ANY (ARRAY(SELECT tid FROM pick WHERE lane IS NULL OR lane NOT IN (SELECT lane FROM stay)))
	RETURNING band, rank, seq, lane),
c AS (
	INSERT INTO @claim (fence, until, ends, hard, started, topic, alone, owner, lanes, again)
	SELECT $3::bigint, t.ends, t.ends, t.hard, t.at, t.id, $6::bool, $5::text, a.lanes, (SELECT bool_or(band & 384 > 0) FROM p)
	FROM t, (SELECT coalesce((SELECT array_agg(seq) FROM p WHERE lane IS NULL), '{}')
		|| coalesce((SELECT array_agg(lane) FROM l), '{}') AS lanes OFFSET 0) a
	WHERE cardinality(a.lanes) > 0 RETURNING lanes)
SELECT 0::bigint, t.version, (SELECT count(*) FROM suspect), (SELECT lanes FROM c), (SELECT count(*) FROM @band b WHERE b.topic = t.id), t.at FROM t
UNION ALL SELECT band, max(rank), count(*), NULL, max(seq), NULL FROM p GROUP BY band
UNION ALL SELECT band, min(rank), -count(*), NULL, 0, NULL FROM stay GROUP BY band
UNION ALL SELECT band, min(rank), 0, NULL, 0, NULL FROM (SELECT band, rank FROM locked OFFSET $2::bigint) o GROUP BY band`
)

// readLanes reads the heads of the lanes of claim $1: $2 messages wanted, $3 at most of one
// lane. The longer the rest of a lane, the later a run ends; so lanes share the wanted
// messages. Only a message that was given back, or one in the lane of a key, may have been
// tried.
//
// A lane of which messages were given out before begins with them, even if others have come in
// before them since: start is the first of them, upto the last, and late says that there are
// such others. Messages that were tried and are before the head of the lane are gone, so the
// look-up is short; if nothing was given back lately there is none.
const readLanes = `
WITH c AS MATERIALIZED (SELECT c.lanes, c.started, c.ends, c.hard, c.again, cardinality(c.lanes) AS n FROM @claim c WHERE c.fence = $1::bigint),
tried AS MATERIALIZED (SELECT EXISTS (SELECT FROM @tried t WHERE t.lane < 0 AND t.seen OFFSET 0) AS seen)
SELECT m.lane, m.seq, m.rank, m.vis, m.topic, m.prio, m.replays, m.id, m.key, m.meta, m.body,
	t.attempts, t.rescues, c.started, c.ends, c.hard, 0::bigint AS first, 0::bigint AS last, t.seen, true AS called,
	false AS late, 0::bigint AS upto, t.throttles, t.throttled
FROM c CROSS JOIN LATERAL unnest(c.lanes) x(lane)
CROSS JOIN LATERAL (SELECT m.* FROM @msg m WHERE m.lane = x.lane AND m.seq = x.lane OFFSET 0) m
LEFT JOIN LATERAL (SELECT t.attempts, t.rescues, t.seen, t.throttles, t.throttled FROM @tried t WHERE c.again AND t.seq = m.seq OFFSET 0) t ON true
WHERE x.lane > 0
UNION ALL
SELECT m.lane, m.seq, m.rank, m.vis, m.topic, m.prio, m.replays, m.id, m.key, m.meta, m.body,
	t.attempts, t.rescues, c.started, c.ends, c.hard, x.first, x.last, t.seen, x.called, x.late, x.upto,
	t.throttles, t.throttled
FROM c CROSS JOIN LATERAL (
	SELECT y.lane, l.first, l.last, EXISTS (SELECT FROM @msg b WHERE b.lane = y.lane AND b.seq = l.last OFFSET 0) AS called,
		s.seq AS start, s.upto, s.late
	FROM unnest(c.lanes) y(lane) CROSS JOIN LATERAL (SELECT l.first, l.last FROM @lease l WHERE l.lane = y.lane OFFSET 0) l
	LEFT JOIN LATERAL (
		SELECT g.seq, (` + seenOfLane +
	` DESC LIMIT 1) AS upto, EXISTS (SELECT FROM @msg b WHERE b.lane = y.lane AND b.seq < g.seq OFFSET 0) AS late
		FROM (` + seenOfLane + ` LIMIT 1) g WHERE (SELECT seen FROM tried) OFFSET 0) s ON true
	WHERE y.lane < 0 OFFSET 0) x
CROSS JOIN LATERAL (SELECT m.* FROM @msg m WHERE m.lane = x.lane AND m.seq >= coalesce(x.start, 0) ORDER BY m.seq
	LIMIT greatest(least($3::bigint, $2::bigint - c.n + 1, 2 * (($2::bigint + c.n - 1) / c.n)), 1)) m
LEFT JOIN LATERAL (SELECT t.attempts, t.rescues, t.seen, t.throttles, t.throttled FROM @tried t WHERE t.seq = m.seq OFFSET 0) t ON true`

// seenOfLane are the messages of lane y that were given out before and are there.
const seenOfLane = `SELECT t.seq FROM @tried t WHERE t.lane = y.lane AND t.seen AND t.seq >= l.first
		AND EXISTS (SELECT FROM @msg m WHERE m.lane = t.lane AND m.seq = t.seq OFFSET 0) ORDER BY t.seq`

// readWithin is readLanes with a bound on bytes, $4: bodies beyond it do not
// travel. Only where there are such are the messages put in order here.
const readWithin = `
WITH r AS MATERIALIZED (SELECT x.*, octet_length(x.body) + octet_length(x.key)
	+ CASE WHEN x.meta = '' THEN 0 ELSE coalesce(substring(x.meta FROM '^{"n":([0-9]+)')::int, 0) END AS size
	FROM (` + readLanes + `) x),
z AS MATERIALIZED (SELECT sum(size) <= $4::bigint AS fits FROM r),
h AS (SELECT r.*, first_value(r.rank) OVER w AS hrank, first_value(r.seq) OVER w AS hseq FROM r
	WINDOW w AS (PARTITION BY r.lane ORDER BY r.seq)),
s AS (SELECT h.*, sum(h.size) OVER o AS bytes, row_number() OVER o AS n FROM h
	WINDOW o AS (ORDER BY h.hrank, h.hseq, h.lane, h.seq ROWS UNBOUNDED PRECEDING))
SELECT lane, seq, rank, vis, topic, prio, replays, id, key, meta, body,
	attempts, rescues, started, ends, hard, first, last, seen, called, late, upto, throttles, throttled FROM r WHERE (SELECT fits FROM z)
UNION ALL
SELECT lane, seq, rank, vis, topic, prio, replays, id, key, meta, CASE WHEN bytes <= $4::bigint OR n = 1 THEN body END,
	attempts, rescues, started, ends, hard, first, last, seen, called, late, upto, throttles, throttled FROM s WHERE NOT (SELECT fits FROM z)`

// dropBusy drops the best tickets of a topic whose lanes are leased or closed,
// and tells their holders: $1 topic, $2 how many to look at. A claim of few
// messages would drop them one by one. Holders are told by lane, not by ctid:
// where somebody wrote to the row meanwhile, the lock is on a version that the
// update does not see.
const dropBusy = `
WITH pick AS MATERIALIZED (
	SELECT x.tid, x.lane FROM (SELECT b.prio FROM @band b WHERE b.topic = $1::int OFFSET 0) b
	CROSS JOIN (VALUES (0), (128)) g(gen)
	CROSS JOIN LATERAL (
		SELECT s.ctid AS tid, s.rank, s.seq, s.lane FROM @slot s WHERE s.band = $1::bigint * 512 + g.gen + b.prio
		ORDER BY s.rank, s.seq LIMIT $2::bigint) x
	WHERE x.lane IS NOT NULL ORDER BY x.rank, x.seq LIMIT $2::bigint),
l AS MATERIALIZED (
	SELECT l.lane FROM (SELECT DISTINCT lane FROM pick ORDER BY lane) x
	CROSS JOIN LATERAL (SELECT l.lane FROM @lease l WHERE l.lane = x.lane FOR UPDATE) l),
p AS (DELETE FROM @slot WHERE ctid = ANY (ARRAY(
		SELECT s.ctid FROM @slot s WHERE s.ctid = ANY (ARRAY(SELECT tid FROM pick WHERE lane IN (SELECT lane FROM l)))
		FOR UPDATE SKIP LOCKED)) RETURNING lane),
u AS (UPDATE @lease SET reach = 9223372036854775807 WHERE lane = ANY (ARRAY(SELECT lane FROM p)))
SELECT count(*) FROM p`

// Statements that correct what was claimed.
const (
	// setRuns: the run of a lane that is not just the message of its ticket. It
	// joins by lane, not by ctid: a claim that is told apart by reach may move the
	// row meanwhile.
	setRuns = `UPDATE @lease l SET first = s.first, last = s.last, run = nullif(s.run, '')::bigint[]
		FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $5::text[]) s(lane, first, last, run)
		WHERE l.lane = s.lane AND l.token = $4::bigint`

	// leave takes lanes off a claim: $1 fence, $2 lanes.
	leave = `UPDATE @claim SET gone = coalesce(gone, '{}') || $2::bigint[] WHERE fence = $1::bigint`

	// dropClaims: claims of which nothing is left. One that the sweep has locked it
	// drops itself; it may be waiting for a lane that is being settled here.
	dropClaims = `DELETE FROM @claim WHERE fence = ANY (ARRAY(
		SELECT c.fence FROM @claim c WHERE c.fence = ANY ($1::bigint[]) FOR UPDATE SKIP LOCKED))`

	// ticketSolo gives messages that are lanes of their own a ticket again.
	ticketSolo = `INSERT INTO @slot (band, rank, seq)
		SELECT ` + ticketBand + `, m.rank, m.seq
		FROM unnest($1::bigint[]) x(seq)
		CROSS JOIN LATERAL (SELECT * FROM @msg m WHERE m.lane = x.seq AND m.seq = x.seq OFFSET 0) m
		LEFT JOIN LATERAL (SELECT t.rescues FROM @tried t WHERE t.seq = m.seq OFFSET 0) t ON true
		RETURNING (band / 512)::int`

	// lockLanes locks lanes of keys, if they are still held by that token. $1 is
	// sorted: everybody locks in this order.
	lockLanes = `SELECT x.lane, x.reach, x.first, x.last FROM unnest($1::bigint[], $2::bigint[]) s(lane, token)
		CROSS JOIN LATERAL (SELECT * FROM @lease l WHERE l.lane = s.lane AND l.token = s.token FOR UPDATE) x`

	// openLanes ends leases, and gives the messages that wait behind them a ticket. It comes
	// after the statement that locked: its snapshot shows messages that came meanwhile.
	openLanes = `
WITH x AS (DELETE FROM @lease WHERE ctid = ANY (ARRAY(
		SELECT l.ctid FROM unnest($1::bigint[], $2::bigint[]) s(lane, token)
		CROSS JOIN LATERAL (SELECT l.ctid FROM @lease l WHERE l.lane = s.lane AND l.token = s.token OFFSET 0) l))
	RETURNING lane, reach, rank)
` + ticketHeads

	// ticketHeads gives the head of each opened lane x a ticket, unless it has
	// one of its own: that of a better rank was taken before. What was given out of a
	// lane goes before messages with lower numbers that have committed since, and its
	// rescues say which band the ticket belongs to.
	ticketHeads = `
INSERT INTO @slot (band, rank, seq, lane)
SELECT ` + ticketBand + `, m.rank, m.seq, CASE WHEN x.lane < 0 THEN x.lane END
FROM x CROSS JOIN LATERAL (SELECT * FROM @msg m WHERE m.lane = x.lane ORDER BY m.seq LIMIT 1) m
LEFT JOIN LATERAL (SELECT t.rescues FROM @tried t WHERE t.seq = coalesce((SELECT g.seq FROM @tried g
	WHERE g.lane = x.lane AND g.seen AND g.seq >= m.seq AND EXISTS (SELECT FROM @msg b WHERE b.lane = x.lane AND b.seq = g.seq OFFSET 0)
	ORDER BY g.seq LIMIT 1), m.seq) OFFSET 0) t ON true
WHERE m.seq <= x.reach OR m.rank < x.rank RETURNING (band / 512)::int`
)

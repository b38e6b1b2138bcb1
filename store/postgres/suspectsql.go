package postgres

const (
	// ticketBand is the band of a ticket for message m that was given out before, with its row
	// t of attempts and rescues.
	ticketBand = `m.topic * 512::bigint + CASE WHEN t.rescues >= 2 THEN 384 + least(t.rescues, 4) ELSE 128 + m.prio END`

	// suspectBands are those of the suspects of a topic, without its number.
	suspectBands = `(VALUES (386), (387), (388)) w(bits)`

	// anySuspect reports whether a topic has any, be they alone or not.
	anySuspect = `EXISTS (SELECT FROM @slot s WHERE s.band BETWEEN $1::bigint * 512 + 386 AND $1::bigint * 512 + 388)`

	// lastDeath is when the third last owner died beside other work, in topic f.
	lastDeath = `coalesce((SELECT max(d.at) FROM @death d WHERE d.topic = f.id GROUP BY d.owner ORDER BY max(d.at) DESC OFFSET 2 LIMIT 1), '-infinity')`

	// died says of topic f whether deaths put off its messages that are to be alone now, n.at,
	// for claims of leases of n.lease. The 10 is [store.DeathsWithin].
	died = `LATERAL (SELECT d.at > n.at - 10 * n.lease AS lately FROM (SELECT ` + lastDeath + ` AS at OFFSET 0) d) d`

	// aloneOf are the tickets of topic f of messages that are to be alone, and may be: deaths put
	// off none for longer than [store.MaxPutOff].
	aloneOf = `@slot s WHERE s.band = f.id * 512::bigint + 388 AND NOT (d.lately AND EXISTS (
			SELECT FROM @tried t WHERE t.seq = s.seq AND t.rescued > n.at - interval '30 minutes'))`

	// waitsAlone are the first of topics $1 in which a message is to be alone, and may be.
	waitsAlone = `SELECT t.name FROM unnest($1::int[]) WITH ORDINALITY f(id, n)
		CROSS JOIN (SELECT clock_timestamp() + $3::interval AS at, $2::bigint * interval '1 microsecond' AS lease) n
		CROSS JOIN LATERAL (SELECT * FROM @topic t WHERE t.id = f.id OFFSET 0) t
		CROSS JOIN ` + died + `
		WHERE (t.paused_at IS NULL OR t.pause_until <= n.at) AND EXISTS (SELECT FROM ` + aloneOf + `)
		ORDER BY f.n LIMIT 1`

	readDeaths = `SELECT d.topic, d.owner, max(d.at) FROM @death d GROUP BY d.topic, d.owner`
	addDeaths  = `INSERT INTO @death (topic, owner, at) SELECT * FROM unnest($1::int[], $2::text[], $3::timestamptz[])`
	// purgeDeaths forgets deaths that no longer count: the owner, or three others, died later.
	purgeDeaths = `WITH d AS (DELETE FROM @death d WHERE (SELECT count(*) FROM (
			SELECT FROM @death l WHERE l.topic = d.topic AND l.at > d.at GROUP BY l.owner LIMIT 3) x) = 3
		OR EXISTS (SELECT FROM @death l WHERE l.topic = d.topic AND l.owner = d.owner AND l.at > d.at) RETURNING 1) SELECT count(*) FROM d`
)

// takeSuspects takes tickets of suspects of one topic that are better than the best of
// the others, by rank, up to the weight of $8; otherwise it is like takeTickets.
const takeSuspects = fromTopic + `
best AS MATERIALIZED (
	SELECT x.rank, x.seq FROM t
	CROSS JOIN LATERAL (SELECT b.prio FROM @band b WHERE b.topic = t.id OFFSET 0) b
	CROSS JOIN (VALUES (0), (128)) g(gen)
	CROSS JOIN LATERAL (
		SELECT s.rank, s.seq FROM @slot s WHERE s.band = $1::bigint * 512 + g.gen + b.prio AND ` + validTicket + `
		ORDER BY s.rank, s.seq LIMIT 1) x
	ORDER BY x.rank, x.seq LIMIT 1),
look AS MATERIALIZED (
	SELECT y.tid FROM (
		SELECT x.tid, sum(x.weight) OVER (ORDER BY x.rank, x.seq ROWS UNBOUNDED PRECEDING) AS total FROM t
		CROSS JOIN (VALUES (2, 1), (3, 8), (4, 1048576)) w(rescues, weight)
		CROSS JOIN LATERAL (
			SELECT s.ctid AS tid, s.rank, s.seq, w.weight FROM @slot s WHERE s.band = $1::bigint * 512 + 384 + w.rescues
				AND (s.rank, s.seq) < (coalesce((SELECT rank FROM best), 9223372036854775807), coalesce((SELECT seq FROM best), 0))
			ORDER BY s.rank, s.seq LIMIT $8::bigint / w.weight) x) y
	WHERE y.total <= $8::bigint),
` + pickTickets + takeLanes

// takeAlone takes the ticket of a message that is to be alone, of the first of topics $1
// that has one and where it may be; otherwise it is like takeTickets.
const takeAlone = `
WITH n AS MATERIALIZED (SELECT clock_timestamp() + $7::interval AS at, $4::bigint * interval '1 microsecond' AS lease),
f AS MATERIALIZED (SELECT f.* FROM unnest($1::int[]) WITH ORDINALITY f(id, n)
	WHERE EXISTS (SELECT FROM @slot s WHERE s.band = f.id * 512::bigint + 388)),
w AS MATERIALIZED (
	SELECT t.id, t.version, t.deadline, n.at, x.tid, x.rank, x.seq
	FROM n CROSS JOIN f
	CROSS JOIN LATERAL (SELECT * FROM @topic t WHERE t.id = f.id OFFSET 0) t
	CROSS JOIN ` + died + `
	CROSS JOIN LATERAL (SELECT s.ctid AS tid, s.rank, s.seq FROM ` + aloneOf + ` ORDER BY s.rank, s.seq LIMIT 8) x
	WHERE t.paused_at IS NULL OR t.pause_until <= n.at
	ORDER BY f.n, x.rank, x.seq),
one AS MATERIALIZED (
	SELECT s.ctid AS tid, s.band FROM @slot s WHERE s.ctid = ANY (ARRAY(SELECT tid FROM w))
	ORDER BY array_position($1::int[], (s.band / 512)::int), s.rank, s.seq LIMIT $2::bigint FOR UPDATE SKIP LOCKED),
t AS MATERIALIZED (
	SELECT w.id, w.version, w.at, w.at + w.deadline / 1000 * interval '1 microsecond' AS hard,
		w.at + least($4::bigint, w.deadline / 1000) * interval '1 microsecond' AS ends
	FROM one JOIN w ON w.tid = one.tid LIMIT 1),
look AS MATERIALIZED (SELECT tid FROM one),
suspect AS (SELECT FROM one),
` + pickTickets + takeLanes

package postgres

import (
	"strings"

	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// gate makes an insert that must not be done do nothing, and say why. LATE and DUE stand for
// whether to look at the caller's transaction and at delayed messages.
const gate = `
g AS MATERIALIZED (SELECT CASE
	WHEN BATCH::bytea <> '' AND EXISTS (SELECT FROM @batch WHERE id = BATCH::bytea AND part = PART OFFSET 0) THEN 2
	WHEN LATE AND current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN 3
	WHEN DUE AND EXISTS (SELECT FROM @lease WHERE token = -1 AND until <= (SELECT clock_timestamp() + SKEW::interval) OFFSET 0) THEN 1
	ELSE 0 END AS stop),`

func gated(batch, part, late, due, skew string) string {
	return strings.NewReplacer("BATCH", batch, "PART", part, "LATE", late, "DUE", due, "SKEW", skew).Replace(gate)
}

// insertPlain stores fresh messages of one topic and priority that have nothing
// but a body.
var insertPlain = `
WITH ` + gated("$6", "0", "$9::bool", "false", "$5") + `
b AS MATERIALIZED (
	SELECT a.at, ` + sqlstore.Rank("(extract(epoch FROM a.at) * 1000000)::bigint", "$4::smallint", "t.ageing") + ` AS rank
	FROM (SELECT clock_timestamp() + $5::interval AS at) a, @topic t WHERE t.id = $3::int AND (SELECT stop FROM g) = 0),
n AS MATERIALIZED (
	SELECT nextval('@msg_seq') AS seq, b.rank, b.at, x.id, x.body FROM b, unnest($1::bytea[], $2::bytea[]) x(id, body)),
m AS (INSERT INTO @msg (lane, seq, rank, vis, topic, prio, replays, id, key, uniq, meta, body)
	SELECT seq, seq, rank, at, $3::int, $4::smallint, 0, id, '', '', '', body FROM n),
s AS (INSERT INTO @slot (band, rank, seq) SELECT $3::int * 512::bigint + $4::smallint + $8::int, rank, seq FROM n),
y AS (INSERT INTO @tally (topic, what, n) SELECT $3::int, 1, cardinality($1::bytea[]) FROM b),
o AS (INSERT INTO @batch (id, part, at, outcome) SELECT $6::bytea, 0, b.at, $7::bytea FROM b WHERE $6::bytea <> '')
SELECT 0, NULL::bytea FROM b` + orStop

// The same for messages of any kind: $1 index, $2 topic (position in $14), $3
// prio, $4 lane, $5 key, $6 id, $7 given, $8 after, $9 ukey, $10 ufor, $11 meta,
// $12 body, $13 delay, $14 topics, $15 skew, $16 batch id, $17 outcome, $18
// generation, $19 part, $20 whether the transaction is the caller's, $21 whether to
// look for what is due. Statements that keep the order of their rows depend on nested
// loops alone.
const (
	orStop = ` UNION ALL SELECT -stop, NULL::bytea FROM g WHERE stop > 0`

	rowsGiven = `
x AS MATERIALIZED (
	SELECT * FROM unnest($1::int[], $2::int[], $3::smallint[], $4::bigint[], $5::bytea[], $6::bytea[], $7::bool[], $8::int[],
		$9::bytea[], $10::bigint[], $11::text[], $12::bytea[], $13::bigint[])
	x(i, t, prio, lane, key, id, given, after, ukey, ufor, meta, body, delay) WHERE (SELECT stop FROM g) = 0),
b AS MATERIALIZED (
	SELECT a.at, (extract(epoch FROM a.at) * 1000000)::bigint AS micros, t.ageing, t.ordered
	FROM (SELECT clock_timestamp() + $15::interval AS at) a,
		(SELECT array_agg(t.ageing ORDER BY f.n) AS ageing, array_agg(t.ordered ORDER BY f.n) AS ordered
		FROM unnest($14::int[]) WITH ORDINALITY f(id, n) CROSS JOIN LATERAL (SELECT * FROM @topic t WHERE t.id = f.id OFFSET 0) t) t
	WHERE cardinality(t.ageing) = cardinality($14::int[]) AND (SELECT stop FROM g) = 0),`

	// OFFSET 0 keeps a look-up a look-up: without it the planner may read the whole table
	// instead.
	//
	// rowsKnown finds the messages that are there already, by id, and takes unique keys, in
	// their order, so that two calls never wait for each other. It does not ask for a key that
	// is taken: ON CONFLICT locks the unchanged row until the transaction ends, which may be
	// the caller's, and a settlement of the message that has the key would wait. A key that
	// came after the snapshot is locked for a moment only: rowsLost asks for another try then,
	// and the savepoint lets go of it.
	rowsKnown = `
known AS MATERIALIZED (
	SELECT x.i FROM x WHERE x.given AND x.after = 0 AND (EXISTS (SELECT FROM @msg m WHERE m.id = x.id OFFSET 0)
		OR EXISTS (SELECT FROM @dead d WHERE d.id = x.id OFFSET 0)
		OR EXISTS (SELECT FROM @acked a WHERE a.id = x.id AND a.until > (SELECT at FROM b) OFFSET 0))),
u AS (
	INSERT INTO @uniq AS q (k, id, until)
	SELECT DISTINCT ON (x.ukey) x.ukey, x.id, CASE x.ufor WHEN 0 THEN NULL WHEN -1 THEN 'infinity'
		ELSE (SELECT at FROM b) + x.ufor * interval '1 microsecond' END
	FROM x WHERE x.ukey <> '' AND x.after = 0 AND x.i NOT IN (SELECT i FROM known) AND NOT EXISTS (
		SELECT FROM @uniq q WHERE q.k = x.ukey AND (q.until IS NULL OR q.until > (SELECT at FROM b)) OFFSET 0)
	ORDER BY x.ukey, x.i
	ON CONFLICT (k) DO UPDATE SET id = excluded.id, until = excluded.until
		WHERE q.until <= (SELECT at FROM b)
	RETURNING q.k, q.id),`

	rowsFree = `
	WHERE x.after = 0 AND x.i NOT IN (SELECT i FROM known) AND (x.ukey = '' OR x.id IN (SELECT id FROM u))`

	rowsStored = `),
m AS (INSERT INTO @msg (lane, seq, rank, vis, topic, prio, replays, id, key, uniq, meta, body)
	SELECT CASE WHEN delay = 0 THEN coalesce(home, seq) ELSE seq END, seq, rank, vis, topic, prio, 0, id, key,
		CASE WHEN ufor = 0 THEN ukey ELSE '' END, meta, body FROM n`

	// rowsRace leaves out ids that came after the snapshot; rowsLost finds fewer then.
	rowsRace = ` ON CONFLICT (id) DO NOTHING RETURNING 1`

	rowsQueued = `),
s AS (INSERT INTO @slot (band, rank, seq, lane)
	SELECT topic * 512::bigint + prio + $18::int, rank, seq, home FROM n WHERE delay = 0),
w AS (INSERT INTO @lease (lane, token, reach, first, last, until)
	SELECT seq, CASE WHEN home IS NULL THEN 0 ELSE -1 END, 9223372036854775807, seq, seq, vis FROM n WHERE delay > 0),
y AS (INSERT INTO @tally (topic, what, n) SELECT topic, 1, count(*) FROM n GROUP BY topic),`

	rowsFresh = `
o AS (INSERT INTO @batch (id, part, at, outcome) SELECT $16::bytea, $19::smallint, b.at, $17::bytea FROM b WHERE $16::bytea <> '')
SELECT 0, NULL::bytea FROM b` + orStop

	// rowsLost returns, for each message that was not stored, the one that was there before;
	// nothing if that came or vanished meanwhile: then the transaction is taken back.
	rowsLost = `
lost AS MATERIALIZED (
	SELECT x.i, ($14::int[])[x.t] AS topic, CASE
		WHEN x.i IN (SELECT i FROM known) THEN x.id
		WHEN x.after > 0 THEN CASE WHEN x.after IN (SELECT i FROM known) OR x.after IN (SELECT i FROM n) THEN x.id
			END
		ELSE coalesce((SELECT u.id FROM u WHERE u.k = x.ukey),
			(SELECT q.id FROM @uniq q WHERE q.k = x.ukey AND (q.until IS NULL OR q.until > (SELECT at FROM b)))) END AS other
	FROM x WHERE x.i NOT IN (SELECT i FROM n)),
z AS (INSERT INTO @tally (topic, what, n) SELECT topic, 5, count(*) FROM lost GROUP BY topic),
o AS (INSERT INTO @batch (id, part, at, outcome, items, others)
	SELECT $16::bytea, $19::smallint, b.at, $17::bytea, (SELECT array_agg(i ORDER BY i) FROM lost), (SELECT array_agg(other ORDER BY i) FROM lost)
	FROM b WHERE $16::bytea <> '')
SELECT 0, NULL::bytea FROM b UNION ALL SELECT i, other FROM lost
UNION ALL SELECT -4, NULL WHERE (SELECT count(*) FROM m) < (SELECT count(*) FROM n)` + orStop

	// whatIsBack finds ids that the statement before stored and that belong to the
	// past: the message died or was acked after that statement's snapshot, which
	// may be old, because an insert waits for ids and unique keys that others hold.
	// Beside a message that is there, its past can only be seen by a snapshot of
	// its own; nothing can be added to it any more.
	whatIsBack = `SELECT -4 FROM unnest($1::bytea[]) x(id)
		WHERE (EXISTS (SELECT FROM @dead d WHERE d.id = x.id OFFSET 0)
			OR EXISTS (SELECT FROM @acked a WHERE a.id = x.id AND a.until > (SELECT clock_timestamp() + $2::interval) OFFSET 0))
			AND EXISTS (SELECT FROM @msg m WHERE m.id = x.id OFFSET 0)`

	readBatch   = `SELECT outcome, items, others FROM @batch WHERE id = $1::bytea AND part = $2::smallint`
	insertBatch = `INSERT INTO @batch (id, part, at, outcome) SELECT $1::bytea, $2::smallint, clock_timestamp() + $4::interval, $3::bytea
		WHERE $1::bytea <> ''`
)

var (
	rowsNew = `
n AS MATERIALIZED (
	SELECT nextval('@msg_seq') AS seq, x.*, ($14::int[])[x.t] AS topic, b.at + x.delay * interval '1 microsecond' AS vis,
		` + sqlstore.Rank("b.micros + x.delay", "x.prio", "b.ageing[x.t]") + ` AS rank,
		CASE WHEN x.key <> '' AND b.ordered[x.t] THEN x.lane END AS home
	FROM b, x`

	rowsSent    = `WITH ` + gated("$16", "$19::smallint", "$20::bool", "$21::bool", "$15") + rowsGiven
	insertFresh = rowsSent + rowsNew + rowsStored + rowsQueued + rowsFresh
	insertAny   = rowsSent + rowsKnown + rowsNew + rowsFree + rowsStored + rowsRace + rowsQueued + rowsLost
)

-- The outbox: made by InstallOutbox, taken away by MigrateDown. @ is the schema of the store; what has no @ is made beside
-- the tables of the application. Statements can be repeated.

CREATE OR REPLACE VIEW pawl_outbox AS SELECT NULL::text AS projection, NULL::text AS doc_id, NULL::text AS op,
	NULL::bigint AS version, NULL::text AS doc, NULL::text AS trace_id WHERE false;

-- The number of the topic of a projection, if it is not made yet; topics.go has the same formula.
CREATE OR REPLACE FUNCTION @outbox_topic(name text) RETURNS int LANGUAGE sql IMMUTABLE AS $pawl$
	SELECT 1073741824 + (('x' || left(md5(name), 8))::bit(32)::int & 1073741823)
$pawl$;

-- It appends as append.go does with a transaction of a caller: late, and as a lane of its own. Changes of a document
-- without a version are put in the order of their commits: the second transaction waits for the end of the first at the
-- unique index of change, whose rows are gone again at once. The number that the message gets then is the version.
-- Advisory locks would do as well, but a large transaction would fill the server's table of locks.
CREATE OR REPLACE FUNCTION @outbox_insert() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $pawl$
DECLARE
	topic_name text := NEW.projection || '.index';
	t record;
	n bigint;
	since timestamptz;
	rank bigint;
	headers json;
	place tid;
BEGIN
	IF NEW.projection IS NULL OR NEW.projection !~ '^[A-Za-z0-9._-]{1,100}$' THEN
		RAISE EXCEPTION 'pawl_outbox: projection is %; it is made of 1 to 100 of A-Z a-z 0-9 . _ -', quote_nullable(NEW.projection);
	ELSIF coalesce(octet_length(NEW.doc_id), 0) NOT BETWEEN 1 AND 512 THEN
		RAISE EXCEPTION 'pawl_outbox: doc_id has % bytes; it has 1 to 512', coalesce(octet_length(NEW.doc_id), 0);
	ELSIF NEW.version < 0 THEN
		RAISE EXCEPTION 'pawl_outbox: version is %; it is not negative', NEW.version;
	ELSIF NEW.op = 'upsert' THEN
		IF NEW.doc IS NULL OR json_typeof(NEW.doc::json) <> 'object' THEN
			RAISE EXCEPTION 'pawl_outbox: doc of an upsert is a JSON object';
		END IF;
	ELSIF NEW.op = 'delete' THEN
		NEW.doc := '';
	ELSE
		RAISE EXCEPTION 'pawl_outbox: op is %; it is upsert or delete', quote_nullable(NEW.op);
	END IF;
	IF octet_length(NEW.doc) > 16777216 THEN
		RAISE EXCEPTION 'pawl_outbox: doc has % bytes; the limit is 16 MiB', octet_length(NEW.doc);
	END IF;
	-- The first changes of a projection do not wait for each other's end: whoever holds the lock makes its topic, and the
	-- others know what its number will be.
	SELECT x.id, x.ageing INTO t FROM @topic x WHERE x.name = topic_name;
	IF NOT FOUND THEN
		SELECT @outbox_topic(topic_name) AS id, 120000000000::bigint AS ageing INTO t;
		IF EXISTS (SELECT FROM @topic x WHERE x.id = t.id) THEN -- it has another name: any number will do
			INSERT INTO @topic (name, ordered, deadline, ageing, park, retain, version)
				VALUES (topic_name, false, 300000000000, 120000000000, false, 0, 0) ON CONFLICT DO NOTHING;
			SELECT x.id, x.ageing INTO STRICT t FROM @topic x WHERE x.name = topic_name;
			INSERT INTO @band (topic, prio) VALUES (t.id, 0) ON CONFLICT DO NOTHING;
		ELSIF pg_try_advisory_xact_lock(hashtextextended('@topic ' || topic_name, 0)) THEN
			INSERT INTO @topic (id, name, ordered, deadline, ageing, park, retain, version) OVERRIDING SYSTEM VALUE
				VALUES (t.id, topic_name, false, 300000000000, 120000000000, false, 0, 0) ON CONFLICT DO NOTHING;
		END IF;
	END IF;
	IF NOT EXISTS (SELECT FROM @band b WHERE b.topic = t.id AND b.prio = 0)
		AND pg_try_advisory_xact_lock(hashtextextended('@topic ' || topic_name, 0)) THEN
		INSERT INTO @band (topic, prio) VALUES (t.id, 0) ON CONFLICT DO NOTHING;
		-- Each holds a lock until the end of the transaction, and the server's table of locks is everybody's.
		n := coalesce(nullif(current_setting('pawl.projections', true), ''), '0')::bigint + 1;
		IF n > 100 THEN
			RAISE EXCEPTION 'pawl_outbox: % is the 101st new projection of this transaction; 100 are the limit', NEW.projection
				USING HINT = 'a projection is the name of a pipeline; what tells documents apart is doc_id';
		END IF;
		PERFORM set_config('pawl.projections', n::text, true);
	END IF;
	IF NEW.version IS NULL THEN
		INSERT INTO @change VALUES (hashtextextended(topic_name || ' ' || NEW.doc_id, 0)) RETURNING ctid INTO place;
		DELETE FROM @change WHERE ctid = place;
	END IF;
	n := nextval('@msg_seq');
	since := clock_timestamp();
	rank := {rank};
	NEW.version := coalesce(NEW.version, n);
	headers := json_strip_nulls(json_build_object('op', NEW.op, 'version', NEW.version::text, 'trace_id', left(NEW.trace_id, 256)));
	INSERT INTO @msg (lane, seq, rank, vis, topic, prio, replays, id, key, uniq, meta, body) VALUES (
		n, n, rank, since, t.id, 0, 0,
		{id},
		convert_to(NEW.doc_id, 'UTF8'), '',
		json_build_object('n', octet_length(NEW.op || NEW.version) + 9 + coalesce(octet_length(left(NEW.trace_id, 256)) + 8, 0), 'h', headers)::text,
		convert_to(NEW.doc, 'UTF8'));
	INSERT INTO @slot (band, rank, seq) VALUES (t.id * 512::bigint + 128, rank, n);
	INSERT INTO @tally (topic, what, n) VALUES (t.id, 1, 1);
	RETURN NEW;
END $pawl$;

DROP TRIGGER IF EXISTS pawl_outbox_insert ON pawl_outbox;
CREATE TRIGGER pawl_outbox_insert INSTEAD OF INSERT ON pawl_outbox FOR EACH ROW EXECUTE FUNCTION @outbox_insert();

-- The class of a failure, from its kind.
CREATE OR REPLACE FUNCTION @outbox_class(kind text) RETURNS text LANGUAGE sql IMMUTABLE AS $pawl$
	SELECT CASE WHEN kind IN ('SearchThrottle', 'SearchServer', 'SearchTimeout', 'SearchMapping', 'SearchSize') THEN lower(substr(kind, 7))
		WHEN kind IN ('Rescue', 'Panic', 'Deadline') THEN 'poison' WHEN kind <> '' THEN 'other' END
$pawl$;

-- The views show messages that somebody sent to the topic in another way, too: one that is not as the outbox makes them must
-- not fail the others. Bytes that are no text are shown with escapes, a version that is no number is left out.
CREATE OR REPLACE FUNCTION @outbox_text(b bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $pawl$
BEGIN
	RETURN convert_from(b, 'UTF8');
EXCEPTION WHEN character_not_in_repertoire OR untranslatable_character THEN
	RETURN encode(b, 'escape');
END $pawl$;

CREATE OR REPLACE FUNCTION @outbox_number(n text) RETURNS bigint LANGUAGE sql IMMUTABLE STRICT AS $pawl$
	SELECT CASE WHEN n ~ '^-?[0-9]{1,18}$' THEN n::bigint
		WHEN n ~ '^[0-9]{19}$' AND n <= '9223372036854775807' COLLATE "C" THEN n::bigint END
$pawl$;

-- No text of PostgreSQL holds a NUL.
CREATE OR REPLACE FUNCTION @outbox_about(meta text) RETURNS json LANGUAGE sql IMMUTABLE STRICT AS $pawl$
	SELECT replace(meta, '\u0000', '\ufffd')::json
$pawl$;

CREATE OR REPLACE VIEW pawl_outbox_status AS
WITH held AS (
	SELECT x.seq, c.owner, c.started, c.ends FROM @claim c CROSS JOIN LATERAL unnest(c.lanes) x(seq)
	WHERE c.gone IS NULL OR x.seq <> ALL (c.gone)),
live AS (
	SELECT m.*, @outbox_about(m.meta) AS about, left(t.name, -6) AS projection FROM @msg m JOIN @topic t ON t.id = m.topic
	WHERE t.name LIKE '%.index' AND m.meta LIKE '%"op"%')
SELECT encode(l.id, 'hex')::uuid::text AS id, l.projection, @outbox_text(l.key) AS doc_id, l.about #>> '{h,op}' AS op,
	@outbox_number(l.about #>> '{h,version}') AS version, CASE WHEN h.seq IS NULL THEN 'pending' ELSE 'processing' END AS status,
	coalesce(r.attempts, 0) AS attempts, h.owner, h.ends AS lease_until, h.started AS processing_started_at, w.until AS next_retry_at,
	coalesce(nullif(r.reason, ''), a.data::json ->> 'error') AS last_error,
	CASE WHEN r.reason LIKE 'released: %: %' THEN split_part(r.reason, ': ', 2) ELSE @outbox_class(a.data::json ->> 'kind') END AS last_error_class,
	coalesce(to_timestamp((l.about ->> 'e')::bigint / 1000000.0), l.vis) AS created_at
FROM live l LEFT JOIN held h ON h.seq = l.seq LEFT JOIN @tried r ON r.seq = l.seq
	LEFT JOIN @lease w ON w.lane = l.lane AND w.token = 0
	LEFT JOIN LATERAL (SELECT data FROM @attempt a WHERE a.seq = l.seq ORDER BY a.n DESC LIMIT 1) a ON r.seq IS NOT NULL
UNION ALL
SELECT encode(d.id, 'hex')::uuid::text, left(t.name, -6), @outbox_text(d.key), d.about #>> '{h,op}',
	@outbox_number(d.about #>> '{h,version}'), 'failed', d.attempts, NULL, NULL, NULL, NULL, d.reason, @outbox_class(d.kind),
	coalesce(to_timestamp((d.about ->> 'e')::bigint / 1000000.0), d.vis)
FROM (SELECT x.*, @outbox_about(x.meta) AS about FROM @dead x) d JOIN @topic t ON t.id = d.topic
WHERE t.name LIKE '%.index' AND d.meta LIKE '%"op"%';

-- Dead letters, and those that were replayed: a mark keeps what is known of one, as JSON.
CREATE OR REPLACE VIEW dead_letter_outbox AS
WITH dead AS (
	SELECT d.*, encode(d.id, 'hex')::uuid::text AS name, @outbox_about(d.meta) AS about, t.name AS topic_name,
		d.history[1]::json AS first, d.history[cardinality(d.history)]::json AS last
	FROM @dead d JOIN @topic t ON t.id = d.topic WHERE t.name LIKE '%.index' AND d.meta LIKE '%"op"%'),
kept AS (
	SELECT @outbox_text(k.key) AS name, convert_from(k.value, 'UTF8')::jsonb AS v FROM @mark k
	WHERE k.scope >= 'outbox letters/'::bytea AND k.scope < 'outbox letters0'::bytea)
SELECT d.name AS id, left(d.topic_name, -6) AS projection, d.name AS outbox_id, @outbox_text(d.body) AS payload,
	@outbox_class(d.kind) AS error_class, left(d.reason, 2000) AS error_message,
	substring(d.reason FROM 'HTTP ([0-9]{3})')::int AS http_status, substring(d.reason FROM '\[([a-z0-9_]+)\]') AS es_error_type,
	d.attempts, coalesce((d.first ->> 'ended_at')::timestamptz, d.dead_at) AS first_failed_at, d.dead_at AS last_failed_at,
	coalesce(to_timestamp((d.about ->> 'e')::bigint / 1000000.0), d.vis) AS created_at, d.last ->> 'worker' AS last_owner,
	d.dead_at AS last_lease_until, d.about #>> '{h,trace_id}' AS trace_id, substring(d.reason FROM 'request ([0-9a-f-]{36})') AS request_id,
	d.replays::int AS replay_count, d.resolved_at, d.resolved_by,
	@outbox_text(d.key) AS doc_id, d.about #>> '{h,op}' AS op, @outbox_number(d.about #>> '{h,version}') AS version
FROM dead d
UNION ALL
SELECT k.name, k.v ->> 'projection', k.name, k.v ->> 'payload', k.v ->> 'error_class', k.v ->> 'error_message', (k.v ->> 'http_status')::int,
	k.v ->> 'es_error_type', (k.v ->> 'attempts')::int, (k.v ->> 'first_failed_at')::timestamptz, (k.v ->> 'last_failed_at')::timestamptz,
	(k.v ->> 'created_at')::timestamptz, k.v ->> 'last_owner', (k.v ->> 'last_lease_until')::timestamptz, k.v ->> 'trace_id',
	k.v ->> 'request_id', (k.v ->> 'replay_count')::int, (k.v ->> 'resolved_at')::timestamptz, k.v ->> 'resolved_by',
	k.v ->> 'doc_id', k.v ->> 'op', (k.v ->> 'version')::bigint
FROM kept k WHERE NOT EXISTS (SELECT FROM dead d WHERE d.name = k.name);

CREATE OR REPLACE VIEW projection_status AS
SELECT substr(s.name, 8) AS projection, s.v ->> 'state' AS state, s.v ->> 'alias' AS alias, s.v ->> 'index' AS index, s.v ->> 'target' AS target,
	coalesce((s.v ->> 'done')::bigint, 0) AS done, (s.v ->> 'total')::bigint AS total, s.v ->> 'verdict' AS verdict,
	(s.v ->> 'started_at')::timestamptz AS started_at, s.at AS updated_at
FROM (SELECT @outbox_text(e.key) AS name, convert_from(e.value, 'UTF8')::jsonb AS v, e.at FROM @entry e
	WHERE e.key >= 'outbox/'::bytea AND e.key < 'outbox0'::bytea) s;

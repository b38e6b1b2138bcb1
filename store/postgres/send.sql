-- pawl_send: an append by SQL, in the caller's transaction. Part of the first migration. @ and {schema} are the schema of
-- the store.

-- The type of the default of the options. pawl_send depends on it, so that it goes with the schema wherever it is.
CREATE DOMAIN @send_options AS jsonb;

-- It reports why a message is invalid; NULL if it is not. Package pawl has the same rules (Message.Validate).
CREATE FUNCTION @send_invalid(name text, payload bytea, lane_key text, opts jsonb) RETURNS text LANGUAGE plpgsql STABLE AS $pawl$
DECLARE
	why text;
	headers int;
	size bigint;
	odd bool;
BEGIN
	why := CASE
		WHEN name IS NULL THEN 'topic is null'
		WHEN octet_length(name) NOT BETWEEN 1 AND 128 THEN format('topic is %s bytes long; it has 1 to 128', octet_length(name))
		WHEN name !~ '^[A-Za-z0-9._-]+$' THEN format('topic %s is made of A-Z a-z 0-9 . _ -', quote_literal(name))
		WHEN payload IS NULL THEN 'body is null'
		WHEN octet_length(payload) > 16777216 THEN format('body is %s bytes long; the limit is 16777216', octet_length(payload))
		WHEN lane_key = '' THEN 'key is empty; leave it out for a message without a key'
		WHEN octet_length(convert_to(lane_key, 'UTF8')) > 1024 THEN 'key has more than 1024 bytes'
		WHEN jsonb_typeof(opts) <> 'object' THEN format('options are of type %s, not an object', jsonb_typeof(opts))
	END;
	IF why IS NOT NULL OR opts = '{}' THEN
		RETURN why;
	END IF;
	SELECT CASE WHEN k.name IS NULL
			THEN format('options have the unknown %s; known are id, priority, delay_seconds, headers, unique_key, unique_scope, '
				'unique_for_seconds, until_claimed', quote_literal(left(o.key, 40)))
			ELSE format('%s is of type %s; it has to be of type %s', o.key, jsonb_typeof(o.value), k.type) END
		INTO why FROM jsonb_each(opts) o LEFT JOIN (VALUES ('id', 'string'), ('priority', 'number'), ('delay_seconds', 'number'),
			('headers', 'object'), ('unique_key', 'string'), ('unique_scope', 'string'), ('unique_for_seconds', 'number'),
			('until_claimed', 'boolean')) k(name, type) ON k.name = o.key
		WHERE k.name IS NULL OR jsonb_typeof(o.value) NOT IN (k.type, 'null') LIMIT 1;
	IF why IS NOT NULL THEN
		RETURN why;
	END IF;
	IF jsonb_typeof(opts -> 'headers') = 'object' THEN
		SELECT count(*), sum(octet_length(convert_to(h.key || coalesce(h.value #>> '{}', ''), 'UTF8'))),
			bool_or(h.key = '' OR jsonb_typeof(h.value) <> 'string') INTO headers, size, odd FROM jsonb_each(opts -> 'headers') h;
	END IF;
	RETURN CASE
		WHEN octet_length(convert_to(opts ->> 'id', 'UTF8')) > 128 THEN 'id has more than 128 bytes'
		WHEN opts ->> 'id' ~ '[\u0001-\u001f\u007f-\u009f]' THEN 'id has control characters'
		WHEN (opts ->> 'priority')::numeric NOT BETWEEN 0 AND 100 OR (opts ->> 'priority')::numeric % 1 <> 0
			THEN format('priority is %s; it is a whole number from 0 to 100', opts ->> 'priority')
		WHEN (opts ->> 'delay_seconds')::numeric NOT BETWEEN 0 AND {most_delay}
			THEN format('delay_seconds is %s; it goes from 0 to {most_delay}', opts ->> 'delay_seconds')
		WHEN headers > 128 THEN format('headers are %s; the limit is 128', headers)
		WHEN odd THEN 'headers need names, and texts as values'
		WHEN opts #>> '{headers,Pawl-Attempts}' !~ '^\+?0*([1-9][0-9]{0,2}|1000)$'
			THEN format('header Pawl-Attempts is %s; it is a number from 1 to 1000', quote_literal(left(opts #>> '{headers,Pawl-Attempts}', 40)))
		WHEN opts -> 'headers' ?| ARRAY['Pawl-Retry-For', 'Pawl-Timeout'] AND EXISTS (
			SELECT FROM (VALUES ('Pawl-Retry-For'), ('Pawl-Timeout')) x(name) CROSS JOIN LATERAL (SELECT opts -> 'headers' ->> x.name AS text) h
			WHERE h.text !~ '^\+?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$' OR h.text !~ '[1-9]' OR {most_delay} < (
				SELECT sum(m[1]::numeric * CASE m[2] WHEN 'h' THEN 3600 WHEN 'm' THEN 60 WHEN 's' THEN 1 WHEN 'ms' THEN 0.001 ELSE 0 END)
				FROM regexp_matches(h.text, '([0-9.]+)([^0-9.]+)', 'g') m))
			THEN 'headers Pawl-Retry-For and Pawl-Timeout are durations such as 48h, up to 87660h'
		WHEN size > 32768 THEN format('headers are %s bytes long together; the limit is 32768', size)
		WHEN coalesce(opts ->> 'unique_key', '') = '' AND (coalesce(opts ->> 'unique_scope', '') <> ''
			OR opts ->> 'unique_for_seconds' IS NOT NULL OR (opts ->> 'until_claimed')::bool)
			THEN 'unique_key is empty, but a scope or a duration is set'
		WHEN octet_length(convert_to(opts ->> 'unique_key', 'UTF8')) > 1024 OR octet_length(convert_to(opts ->> 'unique_scope', 'UTF8')) > 1024
			THEN 'unique_key or unique_scope has more than 1024 bytes'
		WHEN (opts ->> 'unique_for_seconds')::numeric < 0 THEN format('unique_for_seconds is %s; it is not negative', opts ->> 'unique_for_seconds')
		WHEN opts ->> 'unique_for_seconds' IS NOT NULL AND (opts ->> 'until_claimed')::bool
			THEN 'unique_for_seconds and until_claimed are given; give one'
	END;
END $pawl$;

-- What waits in a topic with a maximum is counted at most once a second and session, as package bound does.
CREATE FUNCTION @send_full(number int, most bigint) RETURNS bool LANGUAGE plpgsql AS $pawl$
DECLARE
	place text := 'pawl_send.{schema}_' || number;
	now bigint := extract(epoch FROM clock_timestamp()) * 1000000;
	known text[] := string_to_array(nullif(current_setting(place, true), ''), ' ');
	waiting bigint;
BEGIN
	IF now - known[1]::bigint BETWEEN 0 AND 999999 THEN
		waiting := known[2]::bigint;
		now := known[1]::bigint;
	ELSE
		SELECT greatest(w.stored - w.gone - w.dead - w.leased, 0) INTO waiting FROM ({waiting}) w(stored, gone, dead, leased);
	END IF;
	IF waiting >= most THEN
		RETURN true;
	END IF;
	PERFORM set_config(place, now || ' ' || waiting + 1, false);
	RETURN false;
END $pawl$;

-- The lane of a key; NULL if it has none. The order of the topic does not change from here to the commit.
CREATE FUNCTION @send_home(number int, lane_key text) RETURNS bigint LANGUAGE plpgsql AS $pawl$
DECLARE
	home bigint;
BEGIN
	IF lane_key IS NOT NULL THEN
		PERFORM pg_advisory_xact_lock_shared({order}, number);
		SELECT CASE WHEN x.ordered THEN -(('x' || encode(substring(sha256(int8send(number::bigint) || convert_to(lane_key, 'UTF8')) FOR 8), 'hex'))
			::bit(64)::bigint >> 1 & 9223372036854775807) - 1 END INTO home FROM @topic x WHERE x.id = number;
	END IF;
	RETURN home;
END $pawl$;

-- It appends as append.go does in a transaction of the caller. What it appends late goes to the generation "again".
-- Every statement has a snapshot of its own, so that what came in between is found, and there is nothing to roll back.
CREATE FUNCTION @send_any(name text, payload bytea, lane_key text, opts jsonb) RETURNS text LANGUAGE plpgsql AS $pawl$
DECLARE
	why text;
	given text;
	priority int := 0;
	headers jsonb;
	ukey text := '';
	scope text := '';
	lasting bigint := 0;
	wait bigint := 0;
	about text := '';
	t record;
	n bigint;
	since timestamptz;
	place bigint;
	home bigint;
	eid bytea;
	first bytea;
	uniq_row bytea := '';
BEGIN
	opts := coalesce(opts, '{}');
	why := @send_invalid(name, payload, lane_key, opts);
	IF why IS NOT NULL THEN
		RAISE EXCEPTION USING ERRCODE = '22023', MESSAGE = 'pawl_send: ' || why;
	ELSIF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
		RAISE EXCEPTION USING ERRCODE = '25001', MESSAGE = 'pawl_send: the transaction is ' || current_setting('transaction_isolation'),
			HINT = 'begin it with isolation READ COMMITTED';
	END IF;
	IF opts <> '{}' THEN
		given := nullif(opts ->> 'id', '');
		priority := coalesce((opts ->> 'priority')::int, 0);
		headers := nullif(nullif(opts -> 'headers', 'null'), '{}');
		ukey := coalesce(opts ->> 'unique_key', '');
		scope := coalesce(opts ->> 'unique_scope', '');
		lasting := CASE WHEN (opts ->> 'until_claimed')::bool THEN -1000000000
			ELSE least(coalesce((opts ->> 'unique_for_seconds')::numeric, 0) * 1000000000, 9223372036854775807)::bigint END;
		wait := coalesce((opts ->> 'delay_seconds')::numeric, 0) * 1000000000;
		IF headers IS NOT NULL OR ukey <> '' OR wait > 0 THEN -- as meta of message.go
			about := '{' || concat_ws(',',
				'"n":' || (SELECT sum(octet_length(convert_to(h.key || h.value, 'UTF8'))) FROM jsonb_each_text(headers) h),
				'"h":' || headers::text,
				'"s":"' || nullif(translate(encode(convert_to(scope, 'UTF8'), 'base64'), E'\n', ''), '') || '"',
				'"u":"' || nullif(translate(encode(convert_to(ukey, 'UTF8'), 'base64'), E'\n', ''), '') || '"',
				'"f":' || nullif(lasting, 0), '"d":' || nullif(wait, 0)) || '}';
		END IF;
		wait := (wait + 999) / 1000;
	END IF;
	LOOP
		SELECT x.id, x.ageing, x.ordered, x.max_waiting, EXISTS (SELECT FROM @band b WHERE b.topic = x.id AND b.prio = priority) AS seen
			INTO t FROM @topic x WHERE x.name = send_any.name;
		EXIT WHEN FOUND;
		-- The number of a topic of the outbox follows from its name: outbox.sql has the same formula.
		INSERT INTO @topic (id, name, ordered, deadline, ageing, park, retain, version) OVERRIDING SYSTEM VALUE
			SELECT CASE WHEN x.name LIKE '%.index' AND NOT EXISTS (SELECT FROM @topic o WHERE o.id = x.id) THEN x.id
				ELSE nextval(pg_get_serial_sequence('@topic', 'id')) END, x.name, true, {deadline}, {ageing}, false, 0, 0
			FROM (SELECT send_any.name, 1073741824 + (('x' || left(md5(send_any.name), 8))::bit(32)::int & 1073741823) AS id) x
			ON CONFLICT DO NOTHING;
	END LOOP;
	IF NOT t.seen THEN
		INSERT INTO @band (topic, prio) VALUES (t.id, 0), (t.id, priority) ON CONFLICT DO NOTHING;
	END IF;
	IF t.max_waiting > 0 AND @send_full(t.id, t.max_waiting) THEN
		RAISE EXCEPTION USING ERRCODE = '53400', MESSAGE = format('pawl_send: topic %s is full', name),
			DETAIL = format('It takes %s waiting messages.', t.max_waiting), HINT = 'send it again later';
	END IF;
	home := @send_home(t.id, lane_key);
	n := nextval('@msg_seq');
	since := clock_timestamp();
	IF given IS NULL THEN
		eid := {id};
	ELSE
		eid := CASE WHEN given ~ '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' AND left(given, 2) <> '00'
			THEN decode(replace(given, '-', ''), 'hex') ELSE '\x00'::bytea || convert_to(given, 'UTF8') END;
		IF EXISTS (SELECT FROM @msg m WHERE m.id = eid) OR EXISTS (SELECT FROM @dead d WHERE d.id = eid)
			OR EXISTS (SELECT FROM @acked a WHERE a.id = eid AND a.until > since) THEN
			INSERT INTO @tally (topic, what, n) VALUES (t.id, 5, 1);
			RETURN given;
		END IF;
	END IF;
	IF ukey <> '' THEN
		uniq_row := substring(sha256(convert_to(CASE WHEN scope = '' THEN 'topic ' || name ELSE 'scope ' || scope END, 'UTF8')) FOR 16)
			|| substring(sha256(convert_to(ukey, 'UTF8')) FOR 16);
		LOOP -- a key that is taken is not locked
			SELECT q.id INTO first FROM @uniq q WHERE q.k = uniq_row AND (q.until IS NULL OR q.until > since);
			IF FOUND THEN
				INSERT INTO @tally (topic, what, n) VALUES (t.id, 5, 1);
				RETURN CASE get_byte(first, 0) WHEN 0 THEN convert_from(substring(first FROM 2), 'UTF8') ELSE encode(first, 'hex')::uuid::text END;
			END IF;
			UPDATE @uniq q SET id = eid, until = u.until FROM (SELECT CASE WHEN lasting <= 0 THEN NULL
				WHEN lasting >= {most_delay} * 1000000000::bigint THEN 'infinity'
				ELSE since + (lasting + 999) / 1000 * interval '1 microsecond' END AS until) u
				WHERE q.k = uniq_row AND q.until <= since;
			EXIT WHEN FOUND;
			INSERT INTO @uniq (k, id, until) VALUES (uniq_row, eid, CASE WHEN lasting <= 0 THEN NULL
				WHEN lasting >= {most_delay} * 1000000000::bigint THEN 'infinity'
				ELSE since + (lasting + 999) / 1000 * interval '1 microsecond' END) ON CONFLICT DO NOTHING;
			EXIT WHEN FOUND;
		END LOOP;
	END IF;
	place := {rank};
	INSERT INTO @msg (lane, seq, rank, vis, topic, prio, replays, id, key, uniq, meta, body) VALUES (
		CASE WHEN wait = 0 THEN coalesce(home, n) ELSE n END, n, place, since + wait * interval '1 microsecond', t.id, priority, 0, eid,
		CASE WHEN lane_key IS NULL THEN '' ELSE convert_to(lane_key, 'UTF8') END, CASE WHEN lasting <= 0 THEN uniq_row ELSE '' END, about, payload)
		ON CONFLICT (id) DO NOTHING;
	-- Another transaction stored the id meanwhile, or the message of that id died or was acked.
	IF NOT FOUND OR given IS NOT NULL AND (EXISTS (SELECT FROM @dead d WHERE d.id = eid)
		OR EXISTS (SELECT FROM @acked a WHERE a.id = eid AND a.until > since)) THEN
		DELETE FROM @msg m WHERE m.id = eid AND m.seq = n;
		DELETE FROM @uniq q WHERE q.k = uniq_row AND q.id = eid;
		INSERT INTO @tally (topic, what, n) VALUES (t.id, 5, 1);
		RETURN given;
	END IF;
	IF wait = 0 THEN
		INSERT INTO @slot (band, rank, seq, lane) VALUES (t.id * 512::bigint + 128 + priority, place, n, home);
		PERFORM pg_notify('pawl_{schema}', 'sql ' || t.id);
	ELSE
		INSERT INTO @lease (lane, token, reach, first, last, until) VALUES (n, CASE WHEN home IS NULL THEN 0 ELSE -1 END,
			9223372036854775807, n, n, since + wait * interval '1 microsecond');
	END IF;
	INSERT INTO @tally (topic, what, n) VALUES (t.id, 1, 1);
	RETURN CASE WHEN given IS NULL THEN encode(eid, 'hex')::uuid::text ELSE given END;
END $pawl$;

-- The same for a message without options to a topic without a maximum, as most are. Each expression counts here: plain
-- inserts cost less than WITH, an assignment less than PERFORM.
CREATE FUNCTION @send(name text, payload bytea, lane_key text, opts jsonb) RETURNS text LANGUAGE plpgsql AS $pawl$
DECLARE
	number int;
	ageing bigint;
	home bigint;
	n bigint;
	since timestamptz;
	place bigint;
	eid bytea;
	told text;
BEGIN
	IF opts = '{}' AND (lane_key IS NULL OR octet_length(convert_to(lane_key, 'UTF8')) BETWEEN 1 AND 1024) THEN
		SELECT x.id, x.ageing INTO number, ageing FROM @topic x WHERE x.name = send.name AND x.max_waiting = 0
			AND octet_length(payload) <= 16777216 AND current_setting('transaction_isolation') = 'read committed';
	END IF;
	IF number IS NULL THEN
		RETURN @send_any(name, payload, lane_key, opts);
	ELSIF lane_key IS NOT NULL THEN
		home := @send_home(number, lane_key);
	END IF;
	n := nextval('@msg_seq');
	since := clock_timestamp();
	place := {plain_rank};
	eid := {id};
	INSERT INTO @msg (lane, seq, rank, vis, topic, prio, replays, id, key, uniq, meta, body)
		VALUES (coalesce(home, n), n, place, since, number, 0, 0, eid, coalesce(convert_to(lane_key, 'UTF8'), ''), '', '', payload);
	INSERT INTO @slot (band, rank, seq, lane) VALUES (number * 512::bigint + 128, place, n, home);
	INSERT INTO @tally (topic, what, n) VALUES (number, 1, 1);
	told := pg_notify('pawl_{schema}', 'sql ' || number);
	RETURN encode(eid, 'hex')::uuid::text;
END $pawl$;

-- The functions that are called: beside the tables of the application, or in the store's schema where another store has
-- the name already, or nothing may be created there.
DO $do$
DECLARE
	home text;
	body record;
BEGIN
	PERFORM pg_advisory_xact_lock(hashtextextended('pawl_send', 0));
	SELECT x.name INTO home FROM unnest(current_schemas(false)) WITH ORDINALITY x(name, n)
		WHERE x.name <> '{schema}' AND has_schema_privilege(x.name, 'CREATE') ORDER BY x.n LIMIT 1;
	IF home IS NULL OR EXISTS (SELECT FROM pg_proc WHERE proname = 'pawl_send' AND pronamespace = quote_ident(home)::regnamespace) THEN
		home := '{schema}';
	END IF;
	FOR body IN SELECT * FROM (VALUES ('text', 'convert_to(body, ''UTF8'')'), ('bytea', 'body'), ('jsonb', 'convert_to(body::text, ''UTF8'')'))
		x(type, bytes) LOOP
		EXECUTE format($sql$
			CREATE FUNCTION %1$I.pawl_send(topic text, body %2$s, key text DEFAULT NULL, options jsonb DEFAULT '{}'::@send_options)
			RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
			AS 'BEGIN RETURN @send(topic, %3$s, key, options); END';
			REVOKE ALL ON FUNCTION %1$I.pawl_send(text, %2$s, text, jsonb) FROM PUBLIC$sql$,
			home, body.type, replace(body.bytes, '''', ''''''));
	END LOOP;
END $do$;

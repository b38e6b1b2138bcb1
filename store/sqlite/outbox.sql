-- The outbox: made by InstallOutbox, taken away by MigrateDown. It uses no function that SQLite 3.38 lacks, because the
-- triggers run in the application.
DROP VIEW IF EXISTS pawl_outbox;
DROP VIEW IF EXISTS pawl_outbox_status;
DROP VIEW IF EXISTS dead_letter_outbox;
DROP VIEW IF EXISTS projection_status;

CREATE VIEW pawl_outbox AS SELECT NULL AS projection, NULL AS doc_id, NULL AS op, NULL AS version, NULL AS doc, NULL AS trace_id WHERE 0;

-- It appends as append.go does. There is one writer at a time, so the number of a message is in the order of commits; it
-- is the version of a change that has none.
CREATE TRIGGER pawl_outbox_insert INSTEAD OF INSERT ON pawl_outbox BEGIN
	SELECT RAISE(ABORT, 'pawl_outbox: projection is made of 1 to 100 of A-Z a-z 0-9 . _ -')
		WHERE NEW.projection IS NULL OR length(NEW.projection) NOT BETWEEN 1 AND 100 OR NEW.projection GLOB '*[^A-Za-z0-9._-]*';
	SELECT RAISE(ABORT, 'pawl_outbox: doc_id has 1 to 512 bytes')
		WHERE NEW.doc_id IS NULL OR length(CAST(NEW.doc_id AS BLOB)) NOT BETWEEN 1 AND 512;
	SELECT RAISE(ABORT, 'pawl_outbox: version is a whole number that is not negative')
		WHERE NEW.version IS NOT NULL AND (typeof(NEW.version) <> 'integer' OR NEW.version < 0);
	SELECT RAISE(ABORT, 'pawl_outbox: op is upsert or delete') WHERE NEW.op IS NULL OR NEW.op NOT IN ('upsert', 'delete');
	SELECT RAISE(ABORT, 'pawl_outbox: doc of an upsert is a JSON object')
		WHERE NEW.op = 'upsert' AND (NEW.doc IS NULL OR NOT json_valid(NEW.doc) OR json_type(NEW.doc) <> 'object');
	SELECT RAISE(ABORT, 'pawl_outbox: doc has more than 16 MiB') WHERE length(CAST(NEW.doc AS BLOB)) > 16777216;
	INSERT OR IGNORE INTO pawl_topic (name, lanes, deadline, ageing, park, retain, version)
		VALUES (NEW.projection || '.index', 'none', 300000000000, 120000000000, 0, 0, 0);
	INSERT OR IGNORE INTO pawl_total (topic) SELECT topic FROM pawl_topic WHERE name = NEW.projection || '.index';
	UPDATE pawl_state SET settings = settings + 1 WHERE (SELECT appended FROM pawl_total
		WHERE topic = (SELECT topic FROM pawl_topic WHERE name = NEW.projection || '.index')) = 0;
	UPDATE pawl_state SET seq = seq + 1;
	INSERT INTO pawl_msg (seq, lane, topic, prio, rank, enqueued, hidden, delay, replays, id, key, headers, uniq, body)
		SELECT s.seq, 0, t.topic, 0, {rank}, n.now, 0, 0, 0,
			CAST(x'00' || 'change-' || s.seq || '-' || lower(hex(randomblob(6))) AS BLOB), CAST(NEW.doc_id AS BLOB),
			CAST(CASE WHEN NEW.trace_id IS NULL THEN json_object('op', NEW.op, 'version', CAST(coalesce(NEW.version, s.seq) AS TEXT))
				ELSE json_object('op', NEW.op, 'version', CAST(coalesce(NEW.version, s.seq) AS TEXT), 'trace_id', substr(NEW.trace_id, 1, 256)) END AS BLOB),
			NULL, CASE NEW.op WHEN 'upsert' THEN CAST(NEW.doc AS BLOB) END
		FROM pawl_state s, pawl_topic t, (SELECT CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER) * 1000 AS now) n
		WHERE t.name = NEW.projection || '.index';
	INSERT INTO pawl_slot (topic, suspect, rank, seq, lane)
		SELECT m.topic, 0, m.rank, m.seq, 0 FROM pawl_msg m WHERE m.seq = (SELECT seq FROM pawl_state);
	UPDATE pawl_total SET appended = appended + 1 WHERE topic = (SELECT topic FROM pawl_topic WHERE name = NEW.projection || '.index');
END;

CREATE VIEW pawl_outbox_status AS
SELECT CAST(substr(m.id, 2) AS TEXT) AS id, substr(t.name, 1, length(t.name) - 6) AS projection, CAST(m.key AS TEXT) AS doc_id,
	json_extract(CAST(m.headers AS TEXT), '$.op') AS op, CAST(json_extract(CAST(m.headers AS TEXT), '$.version') AS INTEGER) AS version,
	CASE WHEN d.seq IS NOT NULL THEN 'failed' WHEN l.lane IS NOT NULL THEN 'processing' ELSE 'pending' END AS status,
	coalesce(r.attempts, 0) AS attempts, l.owner,
	strftime('%Y-%m-%dT%H:%M:%fZ', l.until / 1000000.0, 'unixepoch') AS lease_until,
	strftime('%Y-%m-%dT%H:%M:%fZ', l.started / 1000000.0, 'unixepoch') AS processing_started_at,
	strftime('%Y-%m-%dT%H:%M:%fZ', c.at / 1000000.0, 'unixepoch') AS next_retry_at,
	coalesce(d.reason, nullif(r.reason, ''), json_extract(CAST(a.record AS TEXT), '$.error')) AS last_error,
	CASE WHEN r.reason LIKE 'released: %: %' AND d.seq IS NULL THEN substr(r.reason, 11, instr(substr(r.reason, 11), ': ') - 1)
		ELSE (CASE WHEN k.kind IN ('SearchThrottle', 'SearchServer', 'SearchTimeout', 'SearchMapping', 'SearchSize') THEN lower(substr(k.kind, 7))
			WHEN k.kind IN ('Rescue', 'Panic', 'Deadline') THEN 'poison' WHEN k.kind <> '' THEN 'other' END) END AS last_error_class,
	strftime('%Y-%m-%dT%H:%M:%fZ', m.enqueued / 1000000.0, 'unixepoch') AS created_at
FROM pawl_topic t JOIN pawl_msg m ON m.topic = t.topic
	LEFT JOIN pawl_dead d ON d.seq = m.seq LEFT JOIN pawl_lease l ON l.lane = m.seq
	LEFT JOIN pawl_closed c ON c.lane = m.seq
	LEFT JOIN pawl_tried r ON r.seq = m.seq
	LEFT JOIN pawl_attempt a ON a.seq = m.seq AND a.n = (SELECT max(n) FROM pawl_attempt x WHERE x.seq = m.seq)
	LEFT JOIN (SELECT seq, kind FROM pawl_dead UNION ALL
		SELECT a.seq, json_extract(CAST(a.record AS TEXT), '$.kind') FROM pawl_attempt a
		WHERE a.n = (SELECT max(n) FROM pawl_attempt x WHERE x.seq = a.seq) AND NOT EXISTS (SELECT 1 FROM pawl_dead d WHERE d.seq = a.seq)) k
	ON k.seq = m.seq
WHERE t.name LIKE '%.index' AND m.headers IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pawl_acked x WHERE x.seq = m.seq);

-- Dead letters, and those that were replayed: a mark keeps what is known of one, as JSON.
CREATE VIEW dead_letter_outbox AS
SELECT CAST(substr(m.id, 2) AS TEXT) AS id, substr(t.name, 1, length(t.name) - 6) AS projection, CAST(substr(m.id, 2) AS TEXT) AS outbox_id,
	CAST(m.body AS TEXT) AS payload,
	CASE WHEN d.kind IN ('SearchThrottle', 'SearchServer', 'SearchTimeout', 'SearchMapping', 'SearchSize') THEN lower(substr(d.kind, 7))
		WHEN d.kind IN ('Rescue', 'Panic', 'Deadline') THEN 'poison' ELSE 'other' END AS error_class,
	substr(d.reason, 1, 2000) AS error_message,
	CASE WHEN instr(d.reason, 'HTTP ') THEN CAST(substr(d.reason, instr(d.reason, 'HTTP ') + 5, 3) AS INTEGER) END AS http_status,
	CASE WHEN instr(d.reason, '[') THEN substr(d.reason, instr(d.reason, '[') + 1, instr(d.reason, ']') - instr(d.reason, '[') - 1) END AS es_error_type,
	coalesce(r.attempts, 0) AS attempts,
	coalesce((SELECT json_extract(CAST(a.record AS TEXT), '$.ended_at') FROM pawl_attempt a WHERE a.seq = m.seq ORDER BY a.n LIMIT 1),
		strftime('%Y-%m-%dT%H:%M:%fZ', d.at / 1000000.0, 'unixepoch')) AS first_failed_at,
	strftime('%Y-%m-%dT%H:%M:%fZ', d.at / 1000000.0, 'unixepoch') AS last_failed_at,
	strftime('%Y-%m-%dT%H:%M:%fZ', m.enqueued / 1000000.0, 'unixepoch') AS created_at,
	(SELECT json_extract(CAST(a.record AS TEXT), '$.worker') FROM pawl_attempt a WHERE a.seq = m.seq ORDER BY a.n DESC LIMIT 1) AS last_owner,
	strftime('%Y-%m-%dT%H:%M:%fZ', d.at / 1000000.0, 'unixepoch') AS last_lease_until,
	json_extract(CAST(m.headers AS TEXT), '$.trace_id') AS trace_id,
	CASE WHEN instr(d.reason, 'request ') THEN substr(d.reason, instr(d.reason, 'request ') + 8, 36) END AS request_id,
	m.replays AS replay_count, strftime('%Y-%m-%dT%H:%M:%fZ', d.resolved / 1000000.0, 'unixepoch') AS resolved_at, d.resolved_by,
	CAST(m.key AS TEXT) AS doc_id,
	json_extract(CAST(m.headers AS TEXT), '$.op') AS op, CAST(json_extract(CAST(m.headers AS TEXT), '$.version') AS INTEGER) AS version
FROM pawl_dead d JOIN pawl_msg m ON m.seq = d.seq JOIN pawl_topic t ON t.topic = d.topic LEFT JOIN pawl_tried r ON r.seq = d.seq
WHERE t.name LIKE '%.index' AND m.headers IS NOT NULL
UNION ALL
SELECT k.name, json_extract(k.v, '$.projection'), k.name, json_extract(k.v, '$.payload'), json_extract(k.v, '$.error_class'),
	json_extract(k.v, '$.error_message'), json_extract(k.v, '$.http_status'), json_extract(k.v, '$.es_error_type'), json_extract(k.v, '$.attempts'),
	json_extract(k.v, '$.first_failed_at'), json_extract(k.v, '$.last_failed_at'), json_extract(k.v, '$.created_at'), json_extract(k.v, '$.last_owner'),
	json_extract(k.v, '$.last_lease_until'), json_extract(k.v, '$.trace_id'), json_extract(k.v, '$.request_id'), json_extract(k.v, '$.replay_count'),
	json_extract(k.v, '$.resolved_at'), json_extract(k.v, '$.resolved_by'), json_extract(k.v, '$.doc_id'), json_extract(k.v, '$.op'),
	json_extract(k.v, '$.version')
FROM (SELECT CAST(key AS TEXT) AS name, CAST(value AS TEXT) AS v FROM pawl_mark
	WHERE scope >= CAST('outbox letters/' AS BLOB) AND scope < CAST('outbox letters0' AS BLOB)) k
WHERE NOT EXISTS (SELECT 1 FROM pawl_dead d JOIN pawl_msg m ON m.seq = d.seq WHERE m.id = CAST(x'00' || k.name AS BLOB));

CREATE VIEW projection_status AS
SELECT substr(s.name, 8) AS projection, json_extract(s.v, '$.state') AS state, json_extract(s.v, '$.alias') AS alias,
	json_extract(s.v, '$.index') AS "index", json_extract(s.v, '$.target') AS target, coalesce(json_extract(s.v, '$.done'), 0) AS done,
	json_extract(s.v, '$.total') AS total, json_extract(s.v, '$.verdict') AS verdict, json_extract(s.v, '$.started_at') AS started_at,
	strftime('%Y-%m-%dT%H:%M:%fZ', s.at / 1000000.0, 'unixepoch') AS updated_at
FROM (SELECT CAST(key AS TEXT) AS name, CAST(value AS TEXT) AS v, at FROM pawl_entry
	WHERE key >= CAST('outbox/' AS BLOB) AND key < CAST('outbox0' AS BLOB)) s;

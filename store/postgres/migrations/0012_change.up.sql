-- Changes of the outbox that have no version: those of one document wait for each other at the index. No row outlives
-- its transaction.
CREATE UNLOGGED TABLE @change (doc bigint PRIMARY KEY)
	WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);

-- An outbox that is there already: numbers above 2^31, and no advisory lock for each change.
DO $migrate$
DECLARE
	f regprocedure := to_regprocedure('@outbox_insert()');
	text text;
BEGIN
	IF f IS NULL THEN
		RETURN;
	END IF;
	text := pg_get_functiondef(f);
	text := replace(text, 'headers json;', 'headers json; place tid;');
	text := replace(text, 'n::int % 16', '(n % 16)::int');
	text := replace(text, '(n >> 4)::int % 256', '((n >> 4) % 256)::int');
	text := replace(text, $$PERFORM pg_advisory_xact_lock(hashtextextended('@outbox ' || topic_name || ' ' || NEW.doc_id, 0));$$,
		$$INSERT INTO @change VALUES (hashtextextended(topic_name || ' ' || NEW.doc_id, 0)) RETURNING ctid INTO place;
		DELETE FROM @change WHERE ctid = place;$$);
	EXECUTE text;
END $migrate$;

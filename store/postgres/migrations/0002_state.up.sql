-- The state of the store: a few values that all processes share. Every change
-- takes the next revision, under the lock of its row until it commits: so what
-- becomes visible later has a higher version.
CREATE TABLE @entry (
	key bytea PRIMARY KEY,        -- text; bytes, so that a prefix is a range
	version bigint NOT NULL,
	at timestamptz NOT NULL,
	writer text NOT NULL,
	value bytea NOT NULL
);
CREATE INDEX entry_version ON @entry (version, key);
CREATE TABLE @revision (one bool PRIMARY KEY CHECK (one), version bigint NOT NULL) WITH (fillfactor = 50);
INSERT INTO @revision VALUES (true, 0);

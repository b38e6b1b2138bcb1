-- Marks: values by key, in scopes; bytes, so that a prefix is a range.
CREATE TABLE @mark (
	scope bytea NOT NULL,
	key bytea NOT NULL,
	version bigint NOT NULL,
	until timestamptz,            -- NULL: until it is removed
	value bytea NOT NULL,
	PRIMARY KEY (scope, key)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX mark_until ON @mark (until) WHERE until IS NOT NULL;

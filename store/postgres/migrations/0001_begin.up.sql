-- A message is immutable; a slot is its ticket; a claim is who holds what; a
-- lease is the latch of a lane that several messages share.
--
-- Lanes: a message that is a lane of its own has lane = seq > 0. A lane of a key
-- is a negative number, a 63-bit hash of topic and key.
-- Bands: topic * 512 + generation * 128 + priority. Generation 0 is fresh, 1 is
-- "again" (given back, retried, late), 3 are suspects: 384 + rescues, 4 for more.
-- There is no generation 2.
-- Rank is in microseconds since 1970. Durations of a topic are in nanoseconds.

CREATE SEQUENCE @msg_seq;
CREATE SEQUENCE @dead_seq;

CREATE TABLE @topic (
	id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text COLLATE "C" NOT NULL UNIQUE,
	ordered bool NOT NULL,
	deadline bigint NOT NULL,
	ageing bigint NOT NULL,
	park bool NOT NULL,
	retain bigint NOT NULL,
	version bigint NOT NULL,
	paused_at timestamptz,
	pause_until timestamptz,
	pause_by text,
	pause_reason text,
	removed bool NOT NULL DEFAULT false,        -- hidden until somebody appends to it
	tail bool NOT NULL DEFAULT false,           -- retried messages of shared lanes go to the tail
	max_waiting bigint NOT NULL DEFAULT 0       -- appends are refused while so many wait; 0: any number
);
CREATE INDEX topic_retain ON @topic (id) WHERE retain > 0;

-- Which priorities a topic has seen, so that a claim knows where to look.
CREATE TABLE @band (topic int NOT NULL, prio smallint NOT NULL, PRIMARY KEY (topic, prio));

CREATE TABLE @msg (
	lane bigint NOT NULL,
	seq bigint NOT NULL,
	rank bigint NOT NULL,
	vis timestamptz NOT NULL,     -- visible from
	topic int NOT NULL,
	prio smallint NOT NULL,
	replays smallint NOT NULL,
	id bytea NOT NULL,            -- 16 bytes of a UUID, or a NUL and text
	key bytea NOT NULL,           -- empty: none
	uniq bytea NOT NULL,          -- unique key that is taken while it lives; empty: none
	meta text NOT NULL,           -- JSON of what is seldom there; empty: nothing
	body bytea NOT NULL,
	PRIMARY KEY (lane, seq)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 20000,
	autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX msg_id ON @msg (id);

CREATE TABLE @slot (
	band bigint NOT NULL,
	rank bigint NOT NULL,
	seq bigint NOT NULL,
	lane bigint                   -- NULL: the lane is seq
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX slot_pick ON @slot (band, rank, seq);

-- One row for what one claim took of one topic. It is the lease of the messages
-- that are lanes of their own; keyed lanes have a row in lease besides.
CREATE TABLE @claim (
	fence bigint PRIMARY KEY,
	until timestamptz NOT NULL,   -- when something of it may end: what the sweep looks for
	ends timestamptz NOT NULL,    -- when what was not extended ends
	hard timestamptz NOT NULL,
	started timestamptz NOT NULL,
	topic int NOT NULL,
	alone bool NOT NULL,
	owner text NOT NULL,
	lanes bigint[] NOT NULL,
	again bool NOT NULL,          -- some ticket was not a fresh one
	gone bigint[],                -- lanes that were given back
	longer bigint[],              -- lanes that were extended ...
	longer_until timestamptz[]    -- ... and when they end
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE @claim ALTER lanes SET STORAGE EXTERNAL;
CREATE INDEX claim_until ON @claim (until);

-- The latch of a lane. token > 0: held by that claim; 0: closed until then, or a
-- delayed message by itself; -1: a delayed message that joins a keyed lane then.
CREATE TABLE @lease (
	lane bigint PRIMARY KEY,
	token bigint NOT NULL,
	reach bigint NOT NULL,        -- messages up to this seq have no ticket of their own ...
	rank bigint NOT NULL DEFAULT 0, -- ... nor those that rank better: of the ticket that was taken
	first bigint NOT NULL,        -- the run: its first and last message
	last bigint NOT NULL,
	until timestamptz,
	run bigint[]                  -- all messages of the run, where other numbers are in between
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX lease_due ON @lease (until) WHERE token <= 0;
CREATE INDEX lease_join ON @lease (until) WHERE token = -1;

-- Only what failed, was rescued or was given back has a row here.
CREATE TABLE @tried (
	seq bigint PRIMARY KEY,
	lane bigint NOT NULL,
	attempts int NOT NULL,
	rescues int NOT NULL,
	lonely int NOT NULL,
	reason text NOT NULL,
	seen bool NOT NULL,           -- it was given out: what commits later with a lower seq comes after it
	throttles int NOT NULL DEFAULT 0, -- throttled retries since it last failed in another way ...
	throttled timestamptz         -- ... and since when; NULL: there is none
) WITH (fillfactor = 80);
-- What was given out of a lane before, in its order: a claim begins with it.
CREATE INDEX tried_seen ON @tried (lane, seq) WHERE seen;
CREATE TABLE @attempt (seq bigint NOT NULL, n int NOT NULL, data text NOT NULL, PRIMARY KEY (seq, n));

CREATE TABLE @uniq (
	k bytea PRIMARY KEY,          -- SHA-256 of scope and key
	id bytea NOT NULL,
	until timestamptz             -- NULL: while the message lives
);
CREATE INDEX uniq_until ON @uniq (until) WHERE until < 'infinity';

CREATE TABLE @dead (
	n bigint PRIMARY KEY,         -- the order of dying
	id bytea NOT NULL UNIQUE,
	lane bigint NOT NULL,         -- of its key, whatever the order; 0: no key
	rank bigint NOT NULL,
	vis timestamptz NOT NULL,
	topic int NOT NULL,
	prio smallint NOT NULL,
	replays smallint NOT NULL,
	key bytea NOT NULL,
	uniq bytea NOT NULL,
	meta text NOT NULL,
	body bytea NOT NULL,
	attempts int NOT NULL,
	rescues int NOT NULL,
	lonely int NOT NULL,
	dead_at timestamptz NOT NULL,
	kind text NOT NULL,
	reason text NOT NULL,
	fingerprint text NOT NULL,
	history text[] NOT NULL,
	resolved_at timestamptz,      -- somebody dealt with it in another way; NULL: it is open
	resolved_by text,
	note text
);
CREATE INDEX dead_topic ON @dead (topic, n);
CREATE INDEX dead_lane ON @dead (lane) WHERE lane <> 0;

-- Acked messages of topics that retain.
CREATE TABLE @acked (
	seq bigint PRIMARY KEY,
	id bytea NOT NULL,
	rank bigint NOT NULL,
	vis timestamptz NOT NULL,
	topic int NOT NULL,
	prio smallint NOT NULL,
	replays smallint NOT NULL,
	key bytea NOT NULL,
	meta text NOT NULL,
	body bytea NOT NULL,
	acked_at timestamptz NOT NULL,
	until timestamptz NOT NULL
);
CREATE INDEX acked_id ON @acked (id);
CREATE INDEX acked_until ON @acked (until);

-- Calls that were answered, so that their repetition gets the same answer.
CREATE TABLE @batch (
	id bytea NOT NULL,
	part smallint NOT NULL,       -- 0 append; 1, 2, 3 the parts of a settle
	at timestamptz NOT NULL,
	outcome bytea,                -- what the caller knew beforehand
	items int[],                  -- items of an append that were not stored, of a settle that changed nothing
	others bytea[],               -- the ids that were there first
	PRIMARY KEY (id, part)
);
ALTER TABLE @batch ALTER outcome SET STORAGE EXTERNAL;
CREATE INDEX batch_at ON @batch USING brin (at) WITH (pages_per_range = 16);

-- Figures: one small row per call and topic, folded into total from time to time.
-- at is when what is counted happened last: known of acks.
CREATE TABLE @tally (topic int NOT NULL, what smallint NOT NULL, n bigint NOT NULL, at timestamptz);
CREATE TABLE @total (topic int NOT NULL, what smallint NOT NULL, n bigint NOT NULL, at timestamptz, PRIMARY KEY (topic, what));

-- Who does the chores, until when.
CREATE TABLE @duty (name text PRIMARY KEY, until timestamptz NOT NULL);

-- Deaths in company: the owner of leases that ended unsettled. Rows are only added, so
-- that nobody waits; all but the last three owners of a topic are forgotten later.
CREATE TABLE @death (topic int NOT NULL, owner text NOT NULL, at timestamptz NOT NULL);
CREATE INDEX death_topic ON @death (topic, at);

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

-- Changes of the outbox that have no version: those of one document wait for each other at the index. No row outlives
-- its transaction.
CREATE UNLOGGED TABLE @change (doc bigint PRIMARY KEY)
	WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 20000, autovacuum_vacuum_cost_delay = 0);

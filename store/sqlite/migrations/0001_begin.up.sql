-- Times are microseconds since 1970, durations nanoseconds. Tables carry a
-- prefix, because the file may be an application's own database.

-- What all writers share: the last number given to a message, the version of
-- the settings of all topics, and two lower bounds of what is due next.
CREATE TABLE pawl_state (
  one        INTEGER PRIMARY KEY CHECK (one = 1),
  seq        INTEGER NOT NULL,
  settings   INTEGER NOT NULL,
  closed_due INTEGER NOT NULL, -- no closed lane opens sooner
  lease_due  INTEGER NOT NULL, -- no lease ends sooner
  clock      INTEGER NOT NULL  -- the latest time of a write, to a second: when it is ahead, the clock was set back
) STRICT;
INSERT INTO pawl_state VALUES (1, 0, 1, 0x7fffffffffffffff, 0x7fffffffffffffff, 0);

CREATE TABLE pawl_topic (
  topic    INTEGER PRIMARY KEY,
  name     TEXT NOT NULL UNIQUE,
  lanes    TEXT NOT NULL, -- the order: key or none
  deadline INTEGER NOT NULL,
  ageing   INTEGER NOT NULL,
  park     INTEGER NOT NULL,
  retain   INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  paused_since  INTEGER, -- NULL: not paused
  paused_until  INTEGER, -- NULL: until it is resumed
  paused_by     TEXT,
  paused_reason TEXT,
  tail          INTEGER NOT NULL DEFAULT 0, -- retried messages of shared lanes go to the tail
  max_waiting   INTEGER NOT NULL DEFAULT 0  -- appends are refused while so many wait; 0: any number
) STRICT;

CREATE TABLE pawl_total (
  topic      INTEGER PRIMARY KEY,
  appended   INTEGER NOT NULL DEFAULT 0,
  acked      INTEGER NOT NULL DEFAULT 0,
  cancelled  INTEGER NOT NULL DEFAULT 0,
  purged     INTEGER NOT NULL DEFAULT 0,
  duplicates INTEGER NOT NULL DEFAULT 0,
  retried    INTEGER NOT NULL DEFAULT 0,
  rescues    INTEGER NOT NULL DEFAULT 0,
  last_ack   INTEGER NOT NULL DEFAULT 0 -- when a message was last acked; 0: never
) STRICT;

-- Every message that is here, in whatever state. The body comes last, so that
-- a long one is not read for the sake of the other columns.
CREATE TABLE pawl_msg (
  seq      INTEGER PRIMARY KEY, -- the order of appending, and of a lane
  lane     INTEGER NOT NULL,    -- negative: shared with its key; 0: one of its own, numbered seq
  topic    INTEGER NOT NULL,
  prio     INTEGER NOT NULL,
  rank     INTEGER NOT NULL,
  enqueued INTEGER NOT NULL,
  hidden   INTEGER NOT NULL,    -- visible that long after enqueued, in microseconds
  delay    INTEGER NOT NULL,    -- as appended
  replays  INTEGER NOT NULL,
  id       BLOB NOT NULL,
  key      BLOB,
  headers  BLOB,
  uniq     BLOB,
  body     BLOB
) STRICT;
CREATE UNIQUE INDEX pawl_msg_id ON pawl_msg (id);
CREATE INDEX pawl_msg_lane ON pawl_msg (lane) WHERE lane < 0;

-- The lanes of keys, by a hash of topic and key. A lane gets a number, that of
-- its first message less 2^47, when it comes to life: so lanes lie beside one
-- another as they came, and not as their keys are hashed. Rows of lanes that are
-- empty again are found out of date by the next message, or purged.
CREATE TABLE pawl_key (
  hash INTEGER PRIMARY KEY,
  lane INTEGER NOT NULL
) STRICT;

-- A ticket per lane that can be claimed. A lane of a key with messages has
-- either a ticket, or a lease, or is closed.
CREATE TABLE pawl_slot (
  topic   INTEGER NOT NULL,
  suspect INTEGER NOT NULL, -- rescues of its message: 2, 3, or 4 for more; 0 for none and for one
  rank    INTEGER NOT NULL,
  seq     INTEGER NOT NULL, -- the lane's first message
  lane    INTEGER NOT NULL, -- as in pawl_msg
  PRIMARY KEY (topic, suspect, rank, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE pawl_lease (
  lane    INTEGER PRIMARY KEY, -- negative: of a key; positive: the message's number
  fence   INTEGER NOT NULL,    -- one per claim and topic
  until   INTEGER NOT NULL,
  hard    INTEGER NOT NULL,
  started INTEGER NOT NULL,
  topic   INTEGER NOT NULL,
  last    INTEGER NOT NULL,    -- the last message of the run
  extras  INTEGER NOT NULL,    -- what an ack has to see to: 1 unique keys, 2 traces of attempts
  alone   INTEGER NOT NULL,
  owner   TEXT NOT NULL
) STRICT;

-- Lanes that open by themselves: delayed messages, retries, releases, holds.
CREATE TABLE pawl_closed (
  lane  INTEGER PRIMARY KEY, -- as in pawl_lease
  at    INTEGER NOT NULL,
  topic INTEGER NOT NULL,
  home  INTEGER NOT NULL     -- 0: opens; negative: a delayed message joins the lane of the key with
                             -- that hash; 1: a delayed message without a key
) STRICT;
CREATE INDEX pawl_closed_at ON pawl_closed (at, lane);

-- Messages with a history: failed, rescued, released or replayed ones.
CREATE TABLE pawl_tried (
  seq      INTEGER PRIMARY KEY,
  attempts INTEGER NOT NULL,
  rescues  INTEGER NOT NULL,
  lonely   INTEGER NOT NULL,
  reason   TEXT NOT NULL,
  throttles INTEGER NOT NULL DEFAULT 0, -- throttled retries since it last failed in another way ...
  throttled INTEGER NOT NULL DEFAULT 0  -- ... and since when; 0: there is none
) STRICT;
CREATE TABLE pawl_attempt (
  seq    INTEGER NOT NULL,
  n      INTEGER NOT NULL,
  record BLOB NOT NULL,
  PRIMARY KEY (seq, n)
) STRICT, WITHOUT ROWID;

-- The n-th dead letter is the n-th death; the message itself stays in pawl_msg.
CREATE TABLE pawl_dead (
  n           INTEGER PRIMARY KEY,
  seq         INTEGER NOT NULL UNIQUE,
  topic       INTEGER NOT NULL,
  hash        INTEGER NOT NULL, -- of its key, or 0
  at          INTEGER NOT NULL,
  kind        TEXT NOT NULL,
  reason      TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  resolved    INTEGER, -- since when somebody has dealt with it in another way; NULL: it is open
  resolved_by TEXT,
  note        TEXT
) STRICT;
CREATE INDEX pawl_dead_topic ON pawl_dead (topic, n);
CREATE INDEX pawl_dead_key ON pawl_dead (hash) WHERE hash < 0;

-- Retained messages; they, too, stay in pawl_msg until they are forgotten.
CREATE TABLE pawl_acked (
  seq    INTEGER PRIMARY KEY,
  at     INTEGER NOT NULL,
  forget INTEGER NOT NULL
) STRICT;
CREATE INDEX pawl_acked_forget ON pawl_acked (forget);

CREATE TABLE pawl_uniq (
  ukey  BLOB PRIMARY KEY,
  until INTEGER NOT NULL, -- 0: while the message lives
  id    BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX pawl_uniq_until ON pawl_uniq (until) WHERE until > 0 AND until < 0x7fffffffffffffff;

-- Outcomes of batches, by the hour in which they came; whole hours are purged.
CREATE TABLE pawl_batch (
  hour    INTEGER NOT NULL,
  id      BLOB NOT NULL,
  outcome BLOB,              -- NULL: nothing was refused
  PRIMARY KEY (hour, id)
) STRICT, WITHOUT ROWID;

-- The last deaths in company of each topic: owners of leases that ended unsettled.
CREATE TABLE pawl_death (
  topic INTEGER NOT NULL,
  owner TEXT NOT NULL,
  at    INTEGER NOT NULL, -- when its last lease ended
  PRIMARY KEY (topic, owner)
) STRICT, WITHOUT ROWID;

-- The state of the store: a few values that all processes share. Every change
-- takes the next revision.
CREATE TABLE pawl_entry (
  key     BLOB PRIMARY KEY, -- text; bytes, so that a prefix is a range
  version INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  writer  TEXT NOT NULL,
  value   BLOB NOT NULL
) STRICT;
CREATE INDEX pawl_entry_version ON pawl_entry (version, key);
CREATE TABLE pawl_revision (
  one     INTEGER PRIMARY KEY CHECK (one = 1),
  version INTEGER NOT NULL
) STRICT;
INSERT INTO pawl_revision VALUES (1, 0);

-- Marks: values by key, in scopes. The value comes last, so that a long one is
-- not read for the sake of the other columns.
CREATE TABLE pawl_mark (
  n       INTEGER PRIMARY KEY,
  scope   BLOB NOT NULL,
  key     BLOB NOT NULL,
  version INTEGER NOT NULL,
  until   INTEGER, -- NULL: until it is removed
  value   BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX pawl_mark_key ON pawl_mark (scope, key);
CREATE INDEX pawl_mark_until ON pawl_mark (until) WHERE until IS NOT NULL;

-- What SQL sends: an append in the transaction of any program that opens the file. The rows are appended by the next call
-- of a store, in their order; closed_due 0 says that there are some.
CREATE TABLE pawl_sent (
  n       INTEGER PRIMARY KEY,
  at      INTEGER NOT NULL,
  topic   TEXT NOT NULL,
  key     BLOB,
  body    BLOB NOT NULL,
  options TEXT
) STRICT;
CREATE VIEW pawl_send AS SELECT NULL AS topic, NULL AS body, NULL AS key, NULL AS options WHERE 0;

-- Package pawl has the same rules (Message.Validate). The trigger runs in the application: no function is used that SQLite
-- 3.38 lacks.
CREATE TRIGGER pawl_send_insert INSTEAD OF INSERT ON pawl_send BEGIN
  SELECT RAISE(ABORT, 'pawl_send: topic is made of 1 to 128 of A-Z a-z 0-9 . _ -') WHERE typeof(NEW.topic) <> 'text'
    OR length(CAST(NEW.topic AS BLOB)) NOT BETWEEN 1 AND 128 OR NEW.topic GLOB '*[^A-Za-z0-9._-]*';
  SELECT RAISE(ABORT, 'pawl_send: body is a text or a blob of at most 16777216 bytes')
    WHERE typeof(NEW.body) NOT IN ('text', 'blob') OR length(CAST(NEW.body AS BLOB)) > 16777216;
  SELECT RAISE(ABORT, 'pawl_send: key is a text or a blob of 1 to 1024 bytes, or null') WHERE NEW.key IS NOT NULL
    AND (typeof(NEW.key) NOT IN ('text', 'blob') OR length(CAST(NEW.key AS BLOB)) NOT BETWEEN 1 AND 1024);
  SELECT RAISE(ABORT, 'pawl_send: options are a JSON object, without \u0000') WHERE NEW.options IS NOT NULL
    AND CASE WHEN json_valid(NEW.options) THEN json_type(NEW.options) <> 'object' OR instr(NEW.options, '\u0000') ELSE 1 END;
  SELECT CASE wrong
    WHEN 1 THEN RAISE(ABORT, 'pawl_send: options are id, unique_key and unique_scope (texts), headers (an object), priority, delay_seconds and unique_for_seconds (numbers), until_claimed (true or false)')
    WHEN 2 THEN RAISE(ABORT, 'pawl_send: id has at most 128 bytes, and no control characters')
    WHEN 3 THEN RAISE(ABORT, 'pawl_send: priority is a whole number from 0 to 100')
    WHEN 4 THEN RAISE(ABORT, 'pawl_send: delay_seconds goes from 0 to 315576000')
    WHEN 5 THEN RAISE(ABORT, 'pawl_send: headers are at most 128 with names, and texts as values, of 32768 bytes together')
    WHEN 6 THEN RAISE(ABORT, 'pawl_send: unique_key and unique_scope have at most 1024 bytes')
    WHEN 7 THEN RAISE(ABORT, 'pawl_send: unique_for_seconds is not negative')
    WHEN 8 THEN RAISE(ABORT, 'pawl_send: header Pawl-Attempts is a number from 1 to 1000')
    WHEN 9 THEN RAISE(ABORT, 'pawl_send: headers Pawl-Retry-For and Pawl-Timeout are durations such as 48h') END,
    CASE WHEN scoped > 0 AND (keyed = 0 OR scoped > 3)
      THEN RAISE(ABORT, 'pawl_send: unique_scope, unique_for_seconds or until_claimed go with a unique_key; give one of the latter two') END
    FROM (SELECT max(CASE o.key
      WHEN 'id' THEN CASE WHEN o.type NOT IN ('text', 'null') THEN 1
        WHEN length(CAST(o.value AS BLOB)) > 128 OR o.value GLOB '*[' || char(1) || '-' || char(31) || char(127) || '-' || char(159) || ']*' THEN 2 END
      WHEN 'priority' THEN CASE WHEN o.type NOT IN ('integer', 'real', 'null') THEN 1
        WHEN o.value NOT BETWEEN 0 AND 100 OR o.value <> CAST(o.value AS INTEGER) THEN 3 END
      WHEN 'delay_seconds' THEN CASE WHEN o.type NOT IN ('integer', 'real', 'null') THEN 1 WHEN o.value NOT BETWEEN 0 AND 315576000 THEN 4 END
      WHEN 'headers' THEN CASE WHEN o.type NOT IN ('object', 'null') THEN 1
        WHEN (SELECT count(*) > 128 OR total(length(CAST(h.key AS BLOB)) + length(CAST(h.value AS BLOB))) > 32768
          OR max(h.key = '' OR h.type <> 'text') FROM json_each(o.value) h) THEN 5
        WHEN EXISTS (SELECT 1 FROM json_each(o.value) h WHERE h.key = 'Pawl-Attempts'
          AND (h.value GLOB '*[^0-9]*' OR CAST(h.value AS INTEGER) NOT BETWEEN 1 AND 1000)) THEN 8
        WHEN EXISTS (SELECT 1 FROM json_each(o.value) h WHERE h.key IN ('Pawl-Retry-For', 'Pawl-Timeout')
          AND (h.value NOT GLOB '[0-9.]*[smh]' OR h.value NOT GLOB '*[1-9]*' OR h.value GLOB '*[^0-9.nuµμmsh]*')) THEN 9 END
      WHEN 'unique_key' THEN CASE WHEN o.type NOT IN ('text', 'null') THEN 1 WHEN length(CAST(o.value AS BLOB)) > 1024 THEN 6 END
      WHEN 'unique_scope' THEN CASE WHEN o.type NOT IN ('text', 'null') THEN 1 WHEN length(CAST(o.value AS BLOB)) > 1024 THEN 6 END
      WHEN 'unique_for_seconds' THEN CASE WHEN o.type NOT IN ('integer', 'real', 'null') THEN 1 WHEN o.value < 0 THEN 7 END
      WHEN 'until_claimed' THEN CASE WHEN o.type NOT IN ('true', 'false', 'null') THEN 1 END
      ELSE 1 END) AS wrong,
      total(o.key = 'unique_key' AND o.value <> '') AS keyed,
      total(CASE o.key WHEN 'unique_scope' THEN o.value <> '' WHEN 'unique_for_seconds' THEN 2 * (o.type <> 'null')
        WHEN 'until_claimed' THEN 2 * (o.type = 'true') END) AS scoped
      FROM json_each(NEW.options) o)
    WHERE NEW.options IS NOT NULL;
  SELECT RAISE(ABORT, 'pawl_send: the topic is full; send it again later') FROM pawl_topic t
    WHERE t.name = NEW.topic AND t.max_waiting > 0 AND t.max_waiting <= (SELECT count(*) FROM pawl_sent WHERE topic = NEW.topic)
      + (SELECT appended - acked - cancelled - purged FROM pawl_total WHERE topic = t.topic) - (SELECT count(*) FROM pawl_dead WHERE topic = t.topic)
      - (SELECT coalesce(sum(CASE WHEN lane > 0 THEN 1 ELSE (SELECT count(*) FROM pawl_msg m WHERE m.lane = l.lane AND m.lane < 0 AND m.seq <= l.last) END), 0)
        FROM pawl_lease l WHERE topic = t.topic);
  INSERT INTO pawl_sent (at, topic, key, body, options) VALUES (CAST((julianday('now') - 2440587.5) * 86400000.0 AS INTEGER) * 1000,
    NEW.topic, CAST(NEW.key AS BLOB), CAST(NEW.body AS BLOB), NEW.options);
  UPDATE pawl_state SET closed_due = 0 WHERE closed_due > 0;
END;

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

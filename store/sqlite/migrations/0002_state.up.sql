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

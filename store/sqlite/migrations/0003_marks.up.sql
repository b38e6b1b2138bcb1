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

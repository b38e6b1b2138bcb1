ALTER TABLE @dead DROP COLUMN resolved_at;
ALTER TABLE @dead DROP COLUMN resolved_by;
ALTER TABLE @dead DROP COLUMN note;

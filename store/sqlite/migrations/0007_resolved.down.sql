ALTER TABLE pawl_dead DROP COLUMN resolved;
ALTER TABLE pawl_dead DROP COLUMN resolved_by;
ALTER TABLE pawl_dead DROP COLUMN note;

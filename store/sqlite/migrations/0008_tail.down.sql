ALTER TABLE pawl_topic DROP COLUMN tail;

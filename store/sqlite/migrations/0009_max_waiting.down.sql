ALTER TABLE pawl_topic DROP COLUMN max_waiting;

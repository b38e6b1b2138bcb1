-- How many messages may wait until appends are refused; 0: any number.
ALTER TABLE pawl_topic ADD COLUMN max_waiting INTEGER NOT NULL DEFAULT 0;

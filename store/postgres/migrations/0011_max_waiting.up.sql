-- How many messages may wait until appends are refused; 0: any number.
ALTER TABLE @topic ADD COLUMN max_waiting bigint NOT NULL DEFAULT 0;

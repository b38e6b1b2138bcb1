ALTER TABLE @topic DROP COLUMN max_waiting;

ALTER TABLE pawl_total DROP COLUMN last_ack;

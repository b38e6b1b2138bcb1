-- When a message of the topic was last acked; 0: never.
ALTER TABLE pawl_total ADD COLUMN last_ack INTEGER NOT NULL DEFAULT 0;

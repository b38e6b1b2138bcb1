-- Throttled retries of a message since it last failed in another way, and since when.
ALTER TABLE pawl_tried ADD COLUMN throttles INTEGER NOT NULL DEFAULT 0;
ALTER TABLE pawl_tried ADD COLUMN throttled INTEGER NOT NULL DEFAULT 0; -- 0: there is none

-- Throttled retries of a message since it last failed in another way, and since when.
ALTER TABLE @tried ADD COLUMN throttles int NOT NULL DEFAULT 0;
ALTER TABLE @tried ADD COLUMN throttled timestamptz; -- NULL: there is none

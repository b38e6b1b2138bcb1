-- The latest time at which something was written, to a second: when it is ahead, the clock was set back.
ALTER TABLE pawl_state ADD COLUMN clock INTEGER NOT NULL DEFAULT 0;

-- Whether retried messages of shared lanes go to the tail.
ALTER TABLE pawl_topic ADD COLUMN tail INTEGER NOT NULL DEFAULT 0;

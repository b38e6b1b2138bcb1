-- Whether retried messages of shared lanes go to the tail.
ALTER TABLE @topic ADD COLUMN tail bool NOT NULL DEFAULT false;

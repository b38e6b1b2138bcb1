-- What was given out of a lane before, in its order: a claim begins with it.
CREATE INDEX tried_seen ON @tried (lane, seq) WHERE seen;

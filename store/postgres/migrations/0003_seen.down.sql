DROP INDEX @tried_seen;

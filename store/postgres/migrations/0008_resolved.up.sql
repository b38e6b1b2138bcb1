-- Dead letters that somebody has dealt with in another way; NULL: it is open.
ALTER TABLE @dead ADD COLUMN resolved_at timestamptz;
ALTER TABLE @dead ADD COLUMN resolved_by text;
ALTER TABLE @dead ADD COLUMN note text;

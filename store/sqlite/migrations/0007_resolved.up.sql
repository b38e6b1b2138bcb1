-- Dead letters that somebody has dealt with in another way; NULL: it is open.
ALTER TABLE pawl_dead ADD COLUMN resolved INTEGER; -- since when
ALTER TABLE pawl_dead ADD COLUMN resolved_by TEXT;
ALTER TABLE pawl_dead ADD COLUMN note TEXT;

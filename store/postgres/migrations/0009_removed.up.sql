-- A topic that was removed is hidden until somebody appends to it.
ALTER TABLE @topic ADD COLUMN removed bool NOT NULL DEFAULT false;

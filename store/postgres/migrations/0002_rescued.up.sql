-- When a message was last rescued; 1970: it was not.
ALTER TABLE @tried ADD COLUMN rescued timestamptz NOT NULL DEFAULT 'epoch';

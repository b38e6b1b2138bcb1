-- When a message was last rescued; 0: it was not.
ALTER TABLE pawl_tried ADD COLUMN rescued INTEGER NOT NULL DEFAULT 0;

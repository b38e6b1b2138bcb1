ALTER TABLE @topic DROP COLUMN removed;

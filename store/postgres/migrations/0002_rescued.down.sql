ALTER TABLE @tried DROP COLUMN rescued;

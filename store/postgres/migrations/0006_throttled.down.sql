ALTER TABLE @tried DROP COLUMN throttles;
ALTER TABLE @tried DROP COLUMN throttled;

ALTER TABLE pawl_tried DROP COLUMN throttles;
ALTER TABLE pawl_tried DROP COLUMN throttled;

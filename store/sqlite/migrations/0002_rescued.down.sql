ALTER TABLE pawl_tried DROP COLUMN rescued;

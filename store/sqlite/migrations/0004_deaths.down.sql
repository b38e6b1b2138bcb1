UPDATE pawl_slot SET suspect = EXISTS (SELECT 1 FROM pawl_tried t WHERE t.seq = pawl_slot.seq AND t.rescues > 0);
DROP TABLE pawl_death;

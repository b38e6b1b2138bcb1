-- The last deaths in company of each topic: owners of leases that ended unsettled.
CREATE TABLE pawl_death (
  topic INTEGER NOT NULL,
  owner TEXT NOT NULL,
  at    INTEGER NOT NULL, -- when its last lease ended
  PRIMARY KEY (topic, owner)
) STRICT, WITHOUT ROWID;

-- From now on suspect is how many rescues a ticket's message has: 2, 3, or 4 for
-- more; 0 for none and for one.
UPDATE pawl_slot SET suspect = coalesce((SELECT CASE WHEN t.rescues >= 2 THEN min(t.rescues, 4) END
  FROM pawl_tried t WHERE t.seq = pawl_slot.seq), 0) WHERE suspect = 1;

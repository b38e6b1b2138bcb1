-- Deaths in company: the owner of leases that ended unsettled. Rows are only added, so
-- that nobody waits; all but the last three owners of a topic are forgotten later.
CREATE TABLE @death (topic int NOT NULL, owner text NOT NULL, at timestamptz NOT NULL);
CREATE INDEX death_topic ON @death (topic, at);

-- Generation 3 of the bands are suspects: topic * 512 + 384 + rescues, 4 for more. There
-- is no generation 2 any more.
UPDATE @slot s SET band = s.band / 512 * 512 + coalesce(
		(SELECT 384 + least(t.rescues, 4) FROM @tried t WHERE t.seq = s.seq AND t.rescues >= 2), 128 + s.band % 128)
	WHERE s.band % 512 BETWEEN 256 AND 383;

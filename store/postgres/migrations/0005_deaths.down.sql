UPDATE @slot s SET band = s.band / 512 * 512 + 256 + coalesce(
		(SELECT m.prio FROM @msg m WHERE m.lane = coalesce(s.lane, s.seq) AND m.seq = s.seq), 0)
	WHERE s.band % 512 >= 384;
DROP TABLE @death;

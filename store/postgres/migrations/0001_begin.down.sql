DROP DOMAIN IF EXISTS @send_options CASCADE; -- and pawl_send with it
DROP FUNCTION IF EXISTS @send(text, bytea, text, jsonb), @send_any(text, bytea, text, jsonb),
	@send_invalid(text, bytea, text, jsonb), @send_full(int, bigint), @send_home(int, text);
DROP TABLE @change, @mark, @entry, @revision, @death, @duty, @total, @tally, @batch, @acked, @dead, @uniq, @attempt,
	@tried, @lease, @claim, @slot, @msg, @band, @topic;
DROP SEQUENCE @msg_seq, @dead_seq;

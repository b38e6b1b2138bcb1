DROP TABLE @change, @mark, @entry, @revision, @death, @duty, @total, @tally, @batch, @acked, @dead, @uniq, @attempt,
	@tried, @lease, @claim, @slot, @msg, @band, @topic;
DROP SEQUENCE @msg_seq, @dead_seq;

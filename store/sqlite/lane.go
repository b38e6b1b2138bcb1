package sqlite

const (
	closeLane = `INSERT INTO pawl_closed (lane, at, topic, home) VALUES (?, ?, ?, ?)`
	reopen    = `DELETE FROM pawl_closed WHERE lane = ?`
	// The ticket of a lane is that of its first message. A message that was
	// rescued is a suspect.
	openLane = `INSERT INTO pawl_slot (topic, suspect, rank, seq, lane)
		SELECT m.topic, EXISTS (SELECT 1 FROM pawl_tried t WHERE t.seq = m.seq AND t.rescues > 0), m.rank, m.seq, m.lane
		FROM pawl_msg m WHERE m.lane = ? AND m.lane < 0 ORDER BY m.seq LIMIT 1`
	openOwn = `INSERT INTO pawl_slot (topic, suspect, rank, seq, lane)
		SELECT m.topic, EXISTS (SELECT 1 FROM pawl_tried t WHERE t.seq = m.seq AND t.rescues > 0), m.rank, m.seq, 0
		FROM pawl_msg m WHERE m.seq = ?`
	// Whoever is first in a lane that is not closed makes it claimable.
	openJoined = `INSERT INTO pawl_slot (topic, suspect, rank, seq, lane)
		SELECT m.topic, EXISTS (SELECT 1 FROM pawl_tried t WHERE t.seq = m.seq AND t.rescues > 0), m.rank, m.seq, m.lane
		FROM pawl_msg m WHERE m.seq = ?
		AND NOT EXISTS (SELECT 1 FROM pawl_msg o WHERE o.lane = m.lane AND o.lane < 0 AND o.seq < m.seq)
		AND NOT EXISTS (SELECT 1 FROM pawl_closed c WHERE c.lane = m.lane)`
	endLease = `DELETE FROM pawl_lease WHERE lane = ?`
	// joinLane puts a message at the tail of a lane, under a new number.
	joinLane    = `UPDATE pawl_msg SET seq = ?, lane = ? WHERE seq = ?`
	renumber    = `UPDATE pawl_tried SET seq = ?1 WHERE seq = ?2`
	renumberAll = `UPDATE pawl_attempt SET seq = ?1 WHERE seq = ?2`
)

// open makes a lane claimable that is neither leased nor closed, if there is
// something in it. A positive lane is that of the one message with that number.
func (k *work) open(lane, topic int64) error {
	query := openLane
	if lane > 0 {
		query = openOwn
	}
	opened, err := k.db.exec(query, lane)
	if opened > 0 {
		k.claimable(topic)
	}
	return err
}

// close keeps a lane from being claimed until then; home is the lane that its
// message joins at that time, or 0.
func (k *work) close(lane, at, topic, home int64) error {
	k.state.closedDue = min(k.state.closedDue, at)
	_, err := k.db.exec(closeLane, lane, at, topic, home)
	return err
}

// end ends a lease. The lane stays closed for after microseconds; a lane of its
// own that is empty has nothing to hold back.
func (k *work) end(lane, topic, after int64, empty bool) error {
	if _, err := k.db.exec(endLease, lane); err != nil {
		return err
	}
	switch {
	case empty && lane > 0:
		return nil
	case after > 0:
		return k.close(lane, k.now+after, topic, 0)
	default:
		return k.open(lane, topic)
	}
}

// join puts a message into a lane, at the tail.
func (k *work) join(seq, home, topic int64) error {
	k.state.seq++
	next := k.state.seq
	if _, err := k.db.exec(joinLane, next, home, seq); err != nil {
		return err
	}
	for _, query := range []string{renumber, renumberAll} {
		if _, err := k.db.exec(query, next, seq); err != nil {
			return err
		}
	}
	if home == 0 {
		return k.open(next, topic)
	}
	opened, err := k.db.exec(openJoined, next)
	if opened > 0 {
		k.claimable(topic)
	}
	return err
}

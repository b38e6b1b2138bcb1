package sqlite

import "cmp"

// laneBase makes the number of a lane of a key from that of its first message:
// negative, so that it is not that of a lane of its own, and growing. Numbers of messages end there: after 44 years at
// 100,000 a second. SQLite stores the lane in six bytes; a larger base takes eight.
const laneBase = 1 << 47

const (
	// A lane that is empty and not closed is given up for a new one.
	takeLane = `INSERT INTO pawl_key (hash, lane) VALUES (?1, ?2) ON CONFLICT (hash) DO UPDATE SET lane = excluded.lane
		WHERE NOT EXISTS (SELECT 1 FROM pawl_msg m WHERE m.lane = pawl_key.lane AND m.lane < 0)
		AND NOT EXISTS (SELECT 1 FROM pawl_closed c WHERE c.lane = pawl_key.lane)`
	selectLane = `SELECT lane FROM pawl_key WHERE hash = ?`
)

// laneOf returns the lane of a key for the message with that number. A lane that
// comes to life with it needs a ticket.
func (k *work) laneOf(hash, seq int64) (lane int64, alone bool, err error) {
	if lane, ok := k.active[hash]; ok {
		return lane, false, nil
	}
	lane = seq - laneBase
	if taken, err := k.db.exec(takeLane, hash, lane); err != nil || taken > 0 {
		return lane, true, err
	}
	cols, _, err := first(k.db, selectLane, hash)
	return cols[0], false, err
}

const (
	closeLane = `INSERT INTO pawl_closed (lane, at, topic, home) VALUES (?, ?, ?, ?)`
	reopen    = `DELETE FROM pawl_closed WHERE lane = ?`
	// The ticket of a lane is that of its first message.
	openLane = `INSERT INTO pawl_slot (topic, suspect, rank, seq, lane)
		SELECT m.topic, ` + suspicionOf + `, m.rank, m.seq, m.lane
		FROM pawl_msg m WHERE m.lane = ? AND m.lane < 0 ORDER BY m.seq LIMIT 1`
	openOwn = `INSERT INTO pawl_slot (topic, suspect, rank, seq, lane)
		SELECT m.topic, ` + suspicionOf + `, m.rank, m.seq, 0
		FROM pawl_msg m WHERE m.seq = ?`
	endLease = `DELETE FROM pawl_lease WHERE lane = ?`
	// joinLane puts a message at the tail of a lane, under a new number.
	joinLane = `UPDATE pawl_msg SET seq = ?, lane = ? WHERE seq = ?`
)

var renumber = []string{
	`UPDATE pawl_tried SET seq = ?1 WHERE seq = ?2`,
	`UPDATE pawl_attempt SET seq = ?1 WHERE seq = ?2`,
}

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

// noKey is the home of a delayed message without a key.
const noKey = 1

// close keeps a lane from being claimed until then. home is for a delayed
// message: the hash of the key whose lane it joins at that time, or noKey.
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

// join puts a message into the lane of its key, at the tail; into one of its own
// if there is no key. It gets a new number, because lanes, and equal ranks, are in
// the order of numbers.
func (k *work) join(seq, hash, topic int64) (err error) {
	k.state.seq++
	next, lane, alone := k.state.seq, int64(0), true
	if hash < 0 {
		if lane, alone, err = k.laneOf(hash, next); err != nil {
			return err
		}
	}
	if _, err := k.db.exec(joinLane, next, lane, seq); err != nil {
		return err
	}
	if err := k.execAll(renumber, next, seq); err != nil || !alone {
		return err
	}
	return k.open(cmp.Or(lane, next), topic)
}

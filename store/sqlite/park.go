package sqlite

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

const (
	// Lanes that are about to be claimed, with a dead letter, and with a message
	// that must not pass it.
	selectParked = `SELECT s.suspect, s.rank, s.seq, s.lane FROM
		(SELECT suspect, rank, seq, lane FROM pawl_slot WHERE topic = ?1 AND suspect = ?2 ORDER BY rank, seq LIMIT ?3) s
		WHERE s.lane < 0 AND EXISTS (SELECT 1 FROM pawl_dead d WHERE d.lane = s.lane AND d.lane < 0)
		AND EXISTS (SELECT 1 FROM pawl_msg m WHERE m.lane = s.lane AND m.lane < 0 AND m.replays = 0)`
	takeSlot     = `DELETE FROM pawl_slot WHERE topic = ? AND suspect = ? AND rank = ? AND seq = ?`
	selectFollow = `SELECT seq FROM pawl_msg WHERE lane = ? AND lane < 0 AND replays = 0 ORDER BY seq LIMIT ?`
)

// parkLimit bounds how many messages a claim parks.
const parkLimit = 1000

// park sends what waits behind dead letters to the dead letters, as far as a
// claim of that limit could meet it. False means that there is more of it.
func (k *work) park(t *topic, limit int) (bool, error) {
	left := int64(parkLimit)
	for suspect := range int64(2) {
		for {
			lanes, err := k.parked(t, suspect, limit)
			if err != nil || left <= 0 {
				return false, err
			}
			if len(lanes) == 0 {
				break
			}
			for _, l := range lanes {
				n, err := k.parkLane(t, l, left)
				if err != nil {
					return false, err
				}
				if left -= n; left <= 0 {
					break
				}
			}
		}
	}
	return true, nil
}

type slot struct{ suspect, rank, seq, lane int64 }

func (k *work) parked(t *topic, suspect int64, limit int) (slots []slot, err error) {
	err = k.db.query(selectParked, func(r row) error {
		slots = append(slots, slot{r.int(0), r.int(1), r.int(2), r.int(3)})
		return nil
	}, t.number, suspect, int64(limit))
	return slots, err
}

// parkLane parks up to limit messages of a lane, and returns how many.
func (k *work) parkLane(t *topic, l slot, limit int64) (int64, error) {
	if _, err := k.db.exec(takeSlot, t.number, l.suspect, l.rank, l.seq); err != nil {
		return 0, err
	}
	var follow []int64
	err := k.db.query(selectFollow, func(r row) error {
		follow = append(follow, r.int(0))
		return nil
	}, l.lane, limit)
	if err != nil {
		return 0, err
	}
	for _, seq := range follow {
		if err := k.bury(seq, k.now, pawl.KindParked, store.ParkedReason); err != nil {
			return 0, err
		}
	}
	return int64(len(follow)), k.open(l.lane, t.number)
}

package sqlite

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

const (
	anyDead = `SELECT 1 FROM pawl_dead WHERE topic = ? LIMIT 1`
	// Lanes that are about to be claimed, and have a message that must not pass a
	// dead letter.
	selectFirst = `SELECT s.suspect, s.rank, s.seq, s.lane, m.key FROM pawl_slot s CROSS JOIN pawl_msg m ON m.seq = s.seq
		WHERE s.topic = ?1 AND s.suspect = ?2 AND s.lane < 0
		AND EXISTS (SELECT 1 FROM pawl_msg f WHERE f.lane = s.lane AND f.lane < 0 AND f.replays = 0)
		ORDER BY s.rank, s.seq LIMIT ?3`
	keyIsDead    = `SELECT 1 FROM pawl_dead WHERE hash = ? AND hash < 0 LIMIT 1`
	takeSlot     = `DELETE FROM pawl_slot WHERE topic = ? AND suspect = ? AND rank = ? AND seq = ?`
	selectFollow = `SELECT seq FROM pawl_msg WHERE lane = ? AND lane < 0 AND replays = 0 ORDER BY seq LIMIT ?`
)

// parkLimit bounds how many messages a claim parks.
const parkLimit = 1000

// park sends what waits behind dead letters to the dead letters, as far as a
// claim of that limit could meet it. False means that there is more of it.
func (k letterWork) park(t *topic, limit int) (bool, error) {
	if _, some, err := first(k.db, anyDead, t.number); err != nil || !some {
		return true, err
	}
	left := int64(parkLimit)
	for _, suspect := range suspicions() {
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

// slot is a row of pawl_slot.
type slot struct {
	suspect, rank, seq, lane int64
	hash                     int64 // of the key; only where it is asked for
}

// parked returns those of the first lanes that have dead letters.
func (k letterWork) parked(t *topic, suspect int64, limit int) ([]slot, error) {
	slots, err := collect(k.db, func(r row) (slot, error) {
		return slot{r.int(0), r.int(1), r.int(2), r.int(3), sqlstore.KeyLane(t.number, r.bytes(4))}, nil
	}, selectFirst, t.number, suspect, int64(limit))
	if err != nil {
		return nil, err
	}
	parked := slots[:0]
	for _, s := range slots {
		_, dead, err := first(k.db, keyIsDead, s.hash)
		if err != nil {
			return nil, err
		}
		if dead {
			parked = append(parked, s)
		}
	}
	return parked, nil
}

// parkLane parks up to limit messages of a lane, and returns how many.
func (k letterWork) parkLane(t *topic, l slot, limit int64) (int64, error) {
	if _, err := k.db.exec(takeSlot, t.number, l.suspect, l.rank, l.seq); err != nil {
		return 0, err
	}
	follow, err := numbers(k.db, selectFollow, l.lane, limit)
	if err != nil {
		return 0, err
	}
	for _, seq := range follow {
		if err := k.makeDead(seq, k.now, pawl.KindParked, backend.ParkedReason); err != nil {
			return 0, err
		}
	}
	return int64(len(follow)), k.open(l.lane, t.number)
}

package sqlite

import (
	"math"
	"time"
)

const (
	// Whole hours of outcomes, a few rows at a time.
	purgeBatches = `DELETE FROM pawl_batch WHERE (hour, id) IN
		(SELECT hour, id FROM pawl_batch WHERE hour < ? ORDER BY hour, id LIMIT 200)`
	purgeUnique = `DELETE FROM pawl_uniq WHERE ukey IN (SELECT ukey FROM pawl_uniq
		WHERE until > 0 AND until < 0x7fffffffffffffff AND until <= ? ORDER BY until LIMIT 200)`
	purgeMarks   = `DELETE FROM pawl_mark WHERE rowid IN (SELECT rowid FROM pawl_mark WHERE until <= ? ORDER BY until LIMIT 200)`
	selectForget = `SELECT seq FROM pawl_acked WHERE forget <= ? ORDER BY forget LIMIT 200`
	endOfKeys    = `SELECT max(hash) FROM (SELECT hash FROM pawl_key WHERE hash > ? ORDER BY hash LIMIT 500)`
	purgeKeys    = `DELETE FROM pawl_key WHERE hash > ?1 AND hash <= ?2 AND lane < ?3
		AND NOT EXISTS (SELECT 1 FROM pawl_msg m WHERE m.lane = pawl_key.lane AND m.lane < 0)
		AND NOT EXISTS (SELECT 1 FROM pawl_closed c WHERE c.lane = pawl_key.lane)`
)

const (
	// purgeEvery is how often a writer at work looks for what need not be kept.
	purgeEvery = time.Second
	// purgeMore is how much of one sort makes it look again at once.
	purgeMore = 200
	// keptKeys is for how many messages the lane of a key is remembered after it
	// ran empty: keys come again.
	keptKeys = 100_000
)

// purger forgets a little at a time.
type purger struct {
	last time.Time // when there was nothing more to forget
	key  int64     // keys up to this hash were looked at
}

// run forgets some of what need not be kept: old outcomes, keys that are free
// again, marks that have expired, retained messages whose time is over, lanes that are long empty.
func (p *purger) run(k *work) error {
	now := time.Now()
	if now.Sub(p.last) < purgeEvery {
		return nil
	}
	more := false
	for _, forget := range []func() (int64, error){
		func() (int64, error) { return k.db.exec(purgeBatches, k.hour()-1) },
		func() (int64, error) { return k.db.exec(purgeUnique, k.now) },
		func() (int64, error) { return k.db.exec(purgeMarks, k.now) },
		func() (int64, error) { return k.forgetAcked(selectForget, k.now) },
		func() (int64, error) { return p.keys(k) },
	} {
		n, err := forget()
		if err != nil {
			return err
		}
		more = more || n >= purgeMore
	}
	if !more {
		p.last = now // otherwise the next transaction goes on
	}
	return nil
}

// forgetAcked forgets acked messages that a query selects, and returns how many.
func (k *work) forgetAcked(query string, args ...any) (int64, error) {
	over, err := numbers(k.db, query, args...)
	for _, seq := range over {
		if err == nil {
			err = k.forget(seq)
		}
	}
	return int64(len(over)), err
}

// keys forgets the lanes of some keys, if they are empty and it is long ago that
// they came to life.
func (p *purger) keys(k *work) (int64, error) {
	old := k.state.seq - keptKeys
	if old <= 0 {
		return 0, nil
	}
	if p.key == 0 {
		p.key = math.MinInt64 // hashes are negative: 0 is the end
	}
	cols, _, err := first(k.db, endOfKeys, p.key)
	if err != nil {
		return 0, err
	}
	from := p.key
	p.key = cols[0]
	return k.db.exec(purgeKeys, from, cols[0], old-laneBase)
}

var forgetMessage = []string{
	`DELETE FROM pawl_msg WHERE seq = ?`,
	`DELETE FROM pawl_acked WHERE seq = ?`,
	`DELETE FROM pawl_tried WHERE seq = ?`,
	`DELETE FROM pawl_attempt WHERE seq = ?`,
}

// forget removes every trace of a message that is in no lane.
func (k *work) forget(seq int64) error { return k.execAll(forgetMessage, seq) }

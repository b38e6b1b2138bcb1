package sqlite

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// The suspicion of a ticket's message: its rescues if there are two or more, and the same
// value for all messages that are carried out alone.
const (
	ordinary int64 = 0
	alone    int64 = store.SolitaryAfter
)

// suspicions are all of these.
func suspicions() []int64 {
	return []int64{ordinary, store.SuspectAfter, store.SuspectAfter + 1, alone}
}

const (
	// suspicionOf is that of message m.
	suspicionOf = `coalesce((SELECT CASE WHEN t.rescues >= 2 THEN min(t.rescues, 4) END FROM pawl_tried t WHERE t.seq = m.seq), 0)`

	hasSuspect = `SELECT 1 FROM pawl_slot WHERE topic = ? AND suspect BETWEEN 2 AND 4 LIMIT 1`
	hasAlone   = `SELECT 1 FROM pawl_slot s CROSS JOIN pawl_tried t ON t.seq = s.seq
		WHERE s.topic = ? AND s.suspect = ? AND t.rescued <= ? LIMIT 1`
	selectAlone = headsOf + ` AND t.rescued <= ? ORDER BY s.rank, s.seq LIMIT 1`
	// selectAmong is selectHeads with suspects among the others: ?2, ?3 and ?5 of those with
	// two, three and four rescues, ?4 of the others.
	selectAmong = `SELECT` + messageCols + `, s.suspect FROM (
			SELECT * FROM (SELECT * FROM pawl_slot WHERE topic = ?1 AND suspect = 0 ORDER BY rank, seq LIMIT ?4)
			UNION ALL SELECT * FROM (SELECT * FROM pawl_slot WHERE topic = ?1 AND suspect = 2 ORDER BY rank, seq LIMIT ?2)
			UNION ALL SELECT * FROM (SELECT * FROM pawl_slot WHERE topic = ?1 AND suspect = 3 ORDER BY rank, seq LIMIT ?3)
			UNION ALL SELECT * FROM (SELECT * FROM pawl_slot WHERE topic = ?1 AND suspect = 4 ORDER BY rank, seq LIMIT ?5)) s
		CROSS JOIN pawl_msg m ON m.seq = s.seq LEFT JOIN pawl_tried t ON t.seq = s.seq
		ORDER BY s.rank, s.seq`

	addDeath = `INSERT INTO pawl_death (topic, owner, at) VALUES (?, ?, ?)
		ON CONFLICT (topic, owner) DO UPDATE SET at = max(at, excluded.at)`
	dropDeaths = `DELETE FROM pawl_death WHERE topic = ?1
		AND at < (SELECT at FROM pawl_death WHERE topic = ?1 ORDER BY at DESC LIMIT 1 OFFSET 2)`
	selectDeaths = `SELECT topic, owner, at FROM pawl_death WHERE topic = ?`
)

// heads calls do with the first lanes of a topic that may be claimed, best rank first,
// each with its first message, and with what the message is suspected of. Of suspects
// there are as many as the claim has room for.
func (c *claimer) heads(w want, do func(r row, suspect int64) error) error {
	if w.alone {
		return c.db.query(selectAlone, func(r row) error { return do(r, alone) }, w.topic.number, alone, w.rescued)
	}
	if c.suspects > 0 {
		if _, found, err := first(c.db, hasSuspect, w.topic.number); err != nil {
			return err
		} else if found {
			return c.among(w, do)
		}
	}
	return c.db.query(selectHeads, func(r row) error { return do(r, ordinary) }, w.topic.number, ordinary,
		int64(w.Limit))
}

// among is heads where there are suspects.
func (c *claimer) among(w want, do func(r row, suspect int64) error) error {
	left := w.Limit
	most := func(rescues int) int64 { return int64(min(w.Limit, c.suspects/store.Weight(rescues))) }
	return c.db.query(selectAmong, func(r row) error {
		suspect := r.int(17)
		weight := store.Weight(int(suspect))
		switch {
		case left == 0:
			return errEnough
		case weight > c.suspects:
			return nil // those that follow with as many rescues do not fit either
		}
		if err := do(r, suspect); err != nil {
			return err
		}
		left--
		c.suspects -= weight
		return nil
	}, w.topic.number, most(2), most(3), int64(w.Limit), most(4))
}

// solitary takes the first message of a topic that is to be alone, if it may.
func (c *claimer) solitary(w want) (bool, error) {
	rescued, found, err := (deaths{c.work}).waits(w.topic, c.terms.For)
	if err != nil || !found {
		return false, err
	}
	w.Limit, w.run, w.alone, w.rescued = 1, 1, true, rescued
	return true, c.take(w)
}

// deaths records and reads deaths beside other work.
type deaths struct{ *work }

// waits reports whether a message waits in a topic that is to be alone, and may be: one that
// was last rescued at rescued or before.
func (k deaths) waits(t *topic, lease time.Duration) (rescued int64, found bool, err error) {
	rescued = k.now
	if _, found, err = first(k.db, hasAlone, t.number, alone, rescued); err != nil || !found {
		return 0, false, err
	}
	died, err := k.deathsIn(t.number)
	if err != nil {
		return 0, false, err
	}
	now := moment(k.now)
	if _, wait := died.PutOff(now, lease, now); wait {
		rescued -= micros(store.MaxPutOff)
		_, found, err = first(k.db, hasAlone, t.number, alone, rescued)
	}
	return rescued, found, err
}

// Solitary implements [store.Suspected].
func (s *core) Solitary(ctx context.Context, lease time.Duration, topics ...string) (name string, err error) {
	topics = slices.Clone(topics)
	err = s.read(ctx, "solitary", func(k *work) error {
		for _, topic := range topics {
			t := k.topics.byName[topic]
			if t == nil || t.paused(k.now) {
				continue
			}
			if _, found, err := (deaths{k}).waits(t, lease); err != nil || found {
				name = topic
				return err
			}
		}
		return nil
	})
	return name, err
}

// deathsIn are the last deaths beside other work in a topic.
func (k deaths) deathsIn(topic int64) (last store.Deaths, err error) {
	err = k.db.query(selectDeaths, func(r row) error {
		last = last.Add(r.text(1), moment(r.int(2)))
		return nil
	}, topic)
	return last, err
}

// owner is who died in a topic.
type owner struct {
	topic int64
	name  string
}

// died notes deaths beside other work, and forgets older ones.
func (k deaths) died(ended map[owner]int64) error {
	for who, at := range ended {
		if _, err := k.db.exec(addDeath, who.topic, who.name, at); err != nil {
			return err
		}
		if _, err := k.db.exec(dropDeaths, who.topic); err != nil {
			return err
		}
	}
	return nil
}

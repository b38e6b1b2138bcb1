package sqlite

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/fingerprint"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// lease is a row of pawl_lease.
type lease struct {
	lane, fence, until, hard, started, topic, last int64
	alone                                          bool
	owner                                          string
	extras                                         int64
}

// What an ack has to clean up besides the message.
const (
	hasUnique = 1 // a unique key that is taken while the message lives
	hasTraces = 2 // rows of pawl_tried and pawl_attempt
)

// lease returns the lease of a lane, or nil.
func (k *work) lease(lane int64) (l *lease, err error) {
	err = k.db.query(selectLease, func(r row) error {
		l = newLease(lane, r)
		return nil
	}, lane)
	return l, err
}

func newLease(lane int64, r row) *lease {
	return &lease{
		lane: lane, fence: r.int(0), until: r.int(1), hard: r.int(2), started: r.int(3),
		topic: r.int(4), last: r.int(5), alone: r.int(6) != 0, owner: r.text(7), extras: r.int(8),
	}
}

// covers reports whether a message belongs to the run.
func (l *lease) covers(e *entry) bool {
	if l.lane > 0 {
		return e.seq == l.lane
	}
	return e.lane == l.lane && e.seq <= l.last
}

// entry is a message that is to be settled or imported.
type entry struct {
	seq, lane, topic int64
	id, key          []byte
	unique           pawl.Unique
	attempts         int64
	tried            bool
}

const (
	selectEntry = `SELECT m.seq, m.lane, m.topic, m.id, m.key, m.uniq, t.attempts
		FROM pawl_msg m LEFT JOIN pawl_tried t ON t.seq = m.seq WHERE m.seq = ?`
	addAttempt = `INSERT INTO pawl_tried (seq, attempts, rescues, lonely, reason) VALUES (?, 1, 0, 0, ?)
		ON CONFLICT (seq) DO UPDATE SET attempts = attempts + 1, reason = excluded.reason, throttles = 0, throttled = 0`
	addThrottle = `INSERT INTO pawl_tried (seq, attempts, rescues, lonely, reason, throttles, throttled) VALUES (?1, 0, 0, 0, ?2, 1, ?3)
		ON CONFLICT (seq) DO UPDATE SET reason = excluded.reason, throttles = throttles + 1,
			throttled = CASE throttled WHEN 0 THEN excluded.throttled ELSE throttled END`
	// trimThrottles forgets the oldest records of throttled retries.
	trimThrottles = `DELETE FROM pawl_attempt WHERE seq = ?1 AND n IN (SELECT n FROM pawl_attempt
		WHERE seq = ?1 AND instr(record, CAST(?2 AS BLOB)) > 0 ORDER BY n DESC LIMIT -1 OFFSET ?3)`
	setReason = `INSERT INTO pawl_tried (seq, attempts, rescues, lonely, reason) VALUES (?, 0, 0, 0, ?)
		ON CONFLICT (seq) DO UPDATE SET reason = excluded.reason`
	leaveLane   = `UPDATE pawl_msg SET lane = 0 WHERE seq = ?`
	insertAcked = `INSERT INTO pawl_acked (seq, at, forget) VALUES (?, ?, ?)`
	insertDead  = `INSERT INTO pawl_dead (seq, topic, hash, at, kind, reason, fingerprint) VALUES (?, ?, ?, ?, ?, ?, ?)`
)

// entry returns a message by its number, or nil.
func (k *work) entry(seq int64) (e *entry, err error) {
	err = k.db.query(selectEntry, func(r row) (err error) {
		e = &entry{
			seq: r.int(0), lane: r.int(1), topic: r.int(2), id: r.bytes(3), key: r.bytes(4),
			attempts: r.int(6), tried: r[6] != nil,
		}
		e.unique, err = decodeUnique(r.bytes(5))
		return err
	}, seq)
	return e, err
}

// leave frees the unique key that a message held while it lived.
func (k *work) leave(e *entry) error {
	if err := (uniques{k}).freeUnique(k.topics.byNumber[e.topic].Name, e.unique, e.id); err != nil {
		return err
	}
	if e.lane == 0 {
		return nil
	}
	_, err := k.db.exec(leaveLane, e.seq)
	return err
}

// ack forgets a message, or keeps it for explanations.
func (k *work) ack(e *entry) error {
	t := k.topics.byNumber[e.topic]
	if t.Retain > 0 {
		if err := k.leave(e); err != nil {
			return err
		}
		_, err := k.db.exec(insertAcked, e.seq, k.now, k.now+micros(t.Retain))
		return err
	}
	if err := (uniques{k}).freeUnique(t.Name, e.unique, e.id); err != nil {
		return err
	}
	if e.tried {
		return k.forget(e.seq)
	}
	return k.drop(e.seq, e.seq, 0)
}

// after is the store's time when d has passed.
func (k *work) after(d time.Duration) time.Time { return moment(k.now + micros(d)) }

// failed records a failed attempt.
func (k *work) failed(seq int64, a *store.Attempt) error {
	add, args := addAttempt, []any{seq, a.Error}
	if a.Throttled {
		add, args = addThrottle, append(args, k.now)
	}
	if _, err := k.db.exec(add, args...); err != nil {
		return err
	}
	if err := k.record(seq, *a); err != nil || !a.Throttled {
		return err
	}
	_, err := k.db.exec(trimThrottles, seq, sqlstore.MarkThrottled, int64(store.KeptThrottles))
	return err
}

// makeDead makes a message a dead letter.
func (k *work) makeDead(seq, at int64, kind pawl.Kind, reason string) error {
	e, err := k.entry(seq)
	if err != nil {
		return err
	}
	return k.deadEntry(e, at, kind, reason)
}

func (k *work) deadEntry(e *entry, at int64, kind pawl.Kind, reason string) error {
	if err := k.leave(e); err != nil {
		return err
	}
	hash := int64(0)
	if e.key != nil {
		hash = sqlstore.KeyLane(e.topic, e.key)
	}
	text := store.Text(string(kind))
	_, err := k.db.exec(insertDead, e.seq, e.topic, hash, at, text, reason, fingerprint.Of(pawl.Kind(text), reason))
	return err
}

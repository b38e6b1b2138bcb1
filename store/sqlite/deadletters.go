package sqlite

import (
	"context"
	"iter"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// letterWork is work on dead letters.
type letterWork struct{ *work }

// letters are what is done with dead letters.
type letters struct {
	*core
	inspector *inspector
}

// Pages of dead letters: after which number, how many, of which topic. What deadWhich leaves out is not read further.
const (
	deadPage  = `WHERE d.n > ?1 AND ?3 = 0 ` + deadWhich
	deadTopic = `WHERE d.topic = ?3 AND d.n > ?1 ` + deadWhich
	deadWhich = `AND (?4 = '' OR d.fingerprint = ?4) AND (?5 = '' OR d.kind = ?5) AND d.at >= ?6 AND d.at <= ?7
		AND (?8 IS NULL OR m.key = ?8) ORDER BY d.n LIMIT ?2`
)

// briefPage is how many dead letters a page has of which little is read.
const briefPage = 2000

// Dead implements [store.DeadLetters].
func (s *letters) Dead(ctx context.Context, f store.DeadFilter) iter.Seq2[store.Record, error] {
	size, columns, fetch := listPage, selectDead, (*work).records
	if f.Brief && !f.Searches() {
		size, columns, fetch = briefPage, selectBrief, (*work).briefly
	}
	since, until := int64(-never), int64(never)
	if !f.Since.IsZero() {
		since = f.Since.UnixMicro()
	}
	if !f.Until.IsZero() {
		until = f.Until.UnixMicro()
	}
	return sqlstore.ListDead(f, size, false, func(after int64, limit int) (letters []sqlstore.Letter, err error) {
		var page []found
		err = s.read(ctx, "list dead letters", func(k *work) (err error) {
			which, topic := deadPage, int64(0)
			if f.Topic != "" {
				t := k.topics.byName[f.Topic]
				if t == nil {
					return nil
				}
				which, topic = deadTopic, t.number
			}
			page, err = fetch(k, columns+which, after, int64(limit), topic, store.Text(f.Fingerprint),
				store.Text(string(f.Kind)), since, until, blob(f.Key))
			return err
		})
		for _, d := range page {
			letters = append(letters, sqlstore.Letter{Record: d.Record, Number: d.death})
		}
		return letters, err
	})
}

const (
	deleteDead    = `DELETE FROM pawl_dead WHERE seq = ?`
	replayMessage = `UPDATE pawl_msg SET topic = ?, rank = ?, hidden = ? - enqueued, replays = replays + 1 WHERE seq = ?`
	// countAnew keeps the attempts if the second argument says so.
	countAnew = `INSERT INTO pawl_tried (seq, attempts, rescues, lonely, reason) VALUES (?1, 0, 0, 0, 'replayed')
		ON CONFLICT (seq) DO UPDATE SET attempts = CASE WHEN ?2 THEN attempts ELSE 0 END, rescues = 0, lonely = 0,
			reason = excluded.reason, throttles = 0, throttled = 0`
	selectPrio = `SELECT prio FROM pawl_msg WHERE seq = ?`
)

// Replay implements [store.DeadLetters].
func (s *letters) Replay(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	return s.replayAll(ctx, topic, false, ids)
}

func (s *letters) replayAll(ctx context.Context, topic string, keep bool, ids []string) (map[string]error, error) {
	if topic != "" {
		if err := pawl.ValidTopic(topic); err != nil {
			return nil, err
		}
	}
	return s.inspector.each(ctx, "replay", ids, func(k *work, id string) (refused, err error) {
		return letterWork{k}.replay(id, topic, keep)
	})
}

// dead is the place of a dead letter; nil if there is none with that id.
func (k letterWork) dead(op, id string) (st *removable, refused, err error) {
	st, err = looks(k).removable(id)
	if err != nil {
		return nil, nil, err
	}
	if st == nil || !st.dead {
		return nil, notFound(op, id), nil
	}
	return st, nil, nil
}

// replay appends a dead letter again: to the tail, under a new number.
func (k letterWork) replay(id, to string, keep bool) (refused, err error) {
	st, refused, err := k.dead("replay", id)
	if st == nil {
		return refused, err
	}
	e, err := k.entry(st.seq)
	if err != nil {
		return nil, err
	}
	from := k.topics.byNumber[e.topic]
	t := from
	if to != "" && to != from.Name {
		if t, err = k.topic(to); err != nil {
			return nil, err
		}
	}
	if e.unique.Key != "" && e.unique.For <= 0 {
		first, err := uniques(k).takeUnique(t.Name, e.unique, e.id)
		if err != nil {
			return nil, err
		}
		if first != "" {
			return &store.Error{Op: "replay " + id, Code: store.ErrConflict,
				Hint: "message " + first + " has its unique key"}, nil
		}
	}
	if t != from {
		k.of(from.number).purged++
		k.of(t.number).appended++
	}
	return nil, k.appendAgain(e, t, keep)
}

func (k letterWork) appendAgain(e *entry, t *topic, keep bool) error {
	prio, _, err := first(k.db, selectPrio, e.seq)
	if err != nil {
		return err
	}
	if _, err := k.db.exec(deleteDead, e.seq); err != nil {
		return err
	}
	rank := t.Rank(moment(k.now), int(prio[0]))
	if _, err := k.db.exec(replayMessage, t.number, rank, k.now, e.seq); err != nil {
		return err
	}
	if _, err := k.db.exec(countAnew, e.seq, keep); err != nil {
		return err
	}
	hash := int64(0)
	if t.keyed(e.key) {
		hash = sqlstore.KeyLane(t.number, e.key)
	}
	return k.join(e.seq, hash, t.number)
}

// Purge implements [store.DeadLetters]. One call is one transaction.
func (s *letters) Purge(ctx context.Context, ids ...string) (map[string]error, error) {
	return s.inspector.each(ctx, "purge", ids, func(k *work, id string) (refused, err error) {
		return letterWork{k}.purgeDead(id)
	})
}

func (k letterWork) purgeDead(id string) (refused, err error) {
	st, refused, err := k.dead("purge", id)
	if st == nil {
		return refused, err
	}
	if _, err := k.db.exec(deleteDead, st.seq); err != nil {
		return nil, err
	}
	k.of(st.topic).purged++
	return nil, k.forget(st.seq)
}

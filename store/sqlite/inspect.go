package sqlite

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// looks is work that looks at messages, and moves those that nobody has.
type looks struct{ *work }

// inspector looks at messages and results, takes them out and brings them forward.
type inspector struct{ *core }

const recordByID = selectRecords + `WHERE m.id = ?`

// Get implements [store.Inspector].
func (s *inspector) Get(ctx context.Context, id string) (store.Record, error) {
	var all []found
	err := s.read(ctx, "get", func(k *work) (err error) {
		all, err = k.records(recordByID, sqlstore.EncodeID(id))
		// A retained message need not be known once its time is over.
		all = slices.DeleteFunc(all, func(f found) bool { return f.State == store.Acked && f.forget <= k.now })
		return err
	})
	if err != nil {
		return store.Record{}, err
	}
	if len(all) == 0 {
		return store.Record{}, notFound("message", id)
	}
	return all[0].Record, nil
}

// place is where a message stands in a listing.
type place struct{ rank, seq int64 }

// Listings sort the places of a topic in memory, so many at a time, and read the
// messages themselves in pages.
const (
	listPlaces = 1 << 20
	listPage   = 200
)

const (
	placesOf = `SELECT m.rank, m.seq FROM pawl_msg m ` + placesWhere + `AND ` + notDead
	// firstPlacesOf is placesOf that looks whether messages are dead, acked or taken only among the first ?6 of all
	// and so many more as that may leave out: to look for each message of a topic costs most of a listing.
	firstPlacesOf = `SELECT m.rank, m.seq FROM (SELECT m.rank, m.seq, m.lane FROM pawl_msg m ` + placesWhere + `
		ORDER BY m.rank, m.seq LIMIT ?6 + ?8) m WHERE ` + notDead
	placesWhere = `WHERE m.topic = ?1 AND (m.rank, m.seq) > (?2, ?3) AND (?4 IS NULL OR m.key = ?4) AND m.enqueued < ?5 `
	notDead     = `NOT EXISTS (SELECT 1 FROM pawl_dead d WHERE d.seq = m.seq) AND `
	// leftOut is how many messages of a topic are not waiting, or more.
	leftOut = `SELECT (SELECT count(*) FROM pawl_dead WHERE topic = ?1) + (SELECT count(*) FROM pawl_acked)
		+ (SELECT count(*) FROM pawl_closed WHERE topic = ?1) + (SELECT count(*) FROM pawl_lease WHERE topic = ?1 AND lane > 0)
		+ (SELECT count(*) FROM pawl_lease l CROSS JOIN pawl_msg o ON o.lane = l.lane AND o.lane < 0 AND o.seq <= l.last WHERE l.topic = ?1)`
	mostLeftOut = 1 << 18
	isThere     = `NOT EXISTS (SELECT 1 FROM pawl_acked a WHERE a.seq = m.seq) `
	isAcked     = `EXISTS (SELECT 1 FROM pawl_acked a WHERE a.seq = m.seq AND a.forget > ?7) `
	// A key that makes a lane is found by it: what stands there, and what joins it
	// when it is due.
	ofKey = `AND m.seq IN (SELECT o.seq FROM pawl_msg o WHERE o.lane = (SELECT lane FROM pawl_key WHERE hash = ?8) AND o.lane < 0
		UNION ALL SELECT c.lane FROM pawl_closed c WHERE c.topic = ?1 AND c.home = ?8) `
	// Of a topic with few leased or delayed messages only those are looked at.
	isLeased = `AND m.seq IN (SELECT o.seq FROM pawl_lease l CROSS JOIN pawl_msg o ON o.seq = l.lane WHERE l.topic = ?1 AND l.lane > 0
		UNION ALL SELECT o.seq FROM pawl_lease l CROSS JOIN pawl_msg o ON o.lane = l.lane AND o.lane < 0 AND o.seq <= l.last WHERE l.topic = ?1 AND l.lane < 0) `
	isDelayed = `AND m.seq IN (SELECT CASE WHEN c.lane > 0 THEN c.lane
		ELSE (SELECT o.seq FROM pawl_msg o WHERE o.lane = c.lane AND o.lane < 0 ORDER BY o.seq LIMIT 1) END
		FROM pawl_closed c WHERE c.topic = ?1 AND c.at > ?7) `
	isWaiting = `AND NOT EXISTS (SELECT 1 FROM pawl_lease l WHERE l.lane = CASE m.lane WHEN 0 THEN m.seq ELSE m.lane END AND m.seq <= l.last)
		AND NOT EXISTS (SELECT 1 FROM pawl_closed c WHERE c.lane = CASE m.lane WHEN 0 THEN m.seq ELSE m.lane END AND c.at > ?7
			AND NOT EXISTS (SELECT 1 FROM pawl_msg f WHERE f.lane = m.lane AND f.lane < 0 AND f.seq < m.seq)) `
	inOrder = `AND ?7 IS NOT NULL ORDER BY m.rank, m.seq LIMIT ?6`
)

// List implements [store.Inspector]. It sorts the places of up to a million
// messages in memory, 16 bytes each.
func (s *inspector) List(ctx context.Context, f store.Filter) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		left := cmp.Or(f.Limit, int(^uint(0)>>1))
		names, err := s.topicNames(ctx, f.Topic)
		if err != nil {
			yield(store.Record{}, err)
			return
		}
		for _, name := range names {
			for r, err := range s.listTopic(ctx, name, f, left) {
				if !yield(r, err) || err != nil {
					return
				}
				if left--; left == 0 {
					return
				}
			}
		}
	}
}

// topicNames returns the topics to be listed, by name.
func (s *inspector) topicNames(ctx context.Context, only string) (names []string, err error) {
	err = s.read(ctx, "list", func(k *work) error {
		for name := range k.topics.byName {
			if only == "" || name == only {
				names = append(names, name)
			}
		}
		return nil
	})
	slices.Sort(names)
	return names, err
}

// listTopic lists up to that many messages of a topic. What is gone between the reading
// of its place and of itself does not count: the listing continues after it.
func (s *inspector) listTopic(ctx context.Context, name string, f store.Filter,
	left int) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		after, pages := place{rank: -1 << 63}, sqlstore.Pages{Most: listPage, Whole: true}
		for {
			asked := min(left, listPlaces)
			places, err := s.places(ctx, name, f, after, asked)
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			for page := range sqlstore.Chunk(places, &pages) {
				records, err := s.page(ctx, page, f.State)
				if err != nil {
					yield(store.Record{}, err)
					return
				}
				for i := range records {
					pages.Read(&records[i].Record)
					if !yield(records[i].Record, nil) {
						return
					}
				}
				left -= len(records)
			}
			if len(places) < asked || left == 0 {
				return
			}
			after = places[len(places)-1]
		}
	}
}

// places returns where the messages that f asks for stand.
func (s *inspector) places(ctx context.Context, name string, f store.Filter, after place, limit int) (places []place,
	err error) {
	err = s.read(ctx, "list", func(k *work) (err error) {
		t := k.topics.byName[name]
		if t == nil {
			return nil
		}
		before := int64(never)
		if f.OlderThan > 0 {
			before = k.now - micros(f.OlderThan)
		}
		query, args, err := looks{k}.listing(t, f, limit)
		if err != nil {
			return err
		}
		args = append([]any{t.number, after.rank, after.seq, blob(f.Key), before, int64(limit), k.now}, args...)
		places, err = collect(k.db, func(r row) (place, error) { return place{r.int(0), r.int(1)}, nil }, query+inOrder,
			args...)
		return err
	})
	return places, err
}

// ofState says of a message that it is in a state; what is dead is in no listing.
var ofState = map[store.State]string{"": isThere, store.IsDead: isThere, store.Waiting: isThere + isWaiting,
	store.Delayed: isThere + isDelayed, store.Leased: isThere + isLeased, store.Acked: isAcked}

// listing is the statement that finds the places of messages, and its argument ?8, if it has one.
func (k looks) listing(t *topic, f store.Filter, limit int) (query string, args []any, err error) {
	query = placesOf + ofState[f.State]
	switch {
	case f.Key != nil && t.keyed(f.Key) && f.State != store.Acked: // which are in no lane
		return query + ofKey, []any{sqlstore.KeyLane(t.number, f.Key)}, nil
	case f.State != "" && f.State != store.Waiting || limit > mostLeftOut:
		return query, nil, nil
	}
	out, err := numbers(k.db, leftOut, t.number)
	if err != nil || out[0] > mostLeftOut {
		return query, nil, err
	}
	return firstPlacesOf + ofState[f.State], []any{out[0]}, nil
}

// page reads the messages of a page, those that are there still.
func (s *inspector) page(ctx context.Context, places []place, state store.State) (records []found, err error) {
	seqs := make([]any, len(places))
	for i, p := range places {
		seqs[i] = p.seq
	}
	err = s.read(ctx, "list", func(k *work) (err error) {
		records, err = k.records(selectRecords+`WHERE m.seq IN (?`+strings.Repeat(", ?", len(seqs)-1)+`)`, seqs...)
		return err
	})
	records = slices.DeleteFunc(records, func(f found) bool {
		gone := f.State == store.IsDead || f.State == store.Acked && state != store.Acked
		return gone || state != "" && f.State != state
	})
	slices.SortFunc(records, func(a, b found) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.seq, b.seq))
	})
	return records, err
}

const (
	selectPlace = `SELECT m.seq, m.lane, m.topic, m.rank, ` + suspicionOf + `,
		EXISTS (SELECT 1 FROM pawl_dead d WHERE d.seq = m.seq),
		EXISTS (SELECT 1 FROM pawl_acked a WHERE a.seq = m.seq),
		EXISTS (SELECT 1 FROM pawl_lease l WHERE l.lane = CASE m.lane WHEN 0 THEN m.seq ELSE m.lane END AND m.seq <= l.last)
		FROM pawl_msg m WHERE m.id = ?`
)

// removable is the place of a message, from which it may be removed.
type removable struct {
	slot
	topic               int64
	dead, acked, leased bool
}

func (k looks) removable(id string) (st *removable, err error) {
	err = k.db.query(selectPlace, func(r row) error {
		st = &removable{
			slot:  slot{seq: r.int(0), lane: r.int(1), rank: r.int(3), suspect: r.int(4)},
			topic: r.int(2), dead: r.int(5) != 0, acked: r.int(6) != 0, leased: r.int(7) != 0,
		}
		return nil
	}, sqlstore.EncodeID(id))
	return st, err
}

// Cancel implements [store.Inspector]. One call is one transaction.
func (s *inspector) Cancel(ctx context.Context, ids ...string) (map[string]error, error) {
	return s.each(ctx, "cancel", ids, func(k *work, id string) (refused, err error) { return looks{k}.cancel(id) })
}

// each does something to messages by id, and collects why it could not.
func (s *inspector) each(ctx context.Context, op string, ids []string,
	do func(*work, string) (refused, err error)) (map[string]error, error) {
	var refused map[string]error
	ids = sqlstore.Distinct(ids)
	err := s.write(ctx, &call{op: op, phase: toManage, afterDue: true, do: func(k *work) error {
		refused = map[string]error{} // do may run twice
		if err := k.sweepAll(); err != nil {
			return err
		}
		for _, id := range ids {
			why, err := do(k, id)
			if err != nil {
				return err
			}
			if why != nil {
				refused[id] = why
			}
		}
		return nil
	}})
	return refused, err
}

func (k looks) cancel(id string) (refused, err error) {
	st, refused, err := k.notLeased("cancel", id)
	if st == nil {
		return refused, err
	}
	k.of(st.topic).cancelled++
	return nil, k.opening(hastenTried, st, func() error { return k.takeOut(st) })
}

// notLeased is the place of a message that is waiting or delayed; nil, and why, of another.
func (k looks) notLeased(op, id string) (st *removable, refused, err error) {
	st, err = k.removable(id)
	switch {
	case err != nil:
		return nil, nil, err
	case st == nil || st.acked:
		return nil, notFound(op, id), nil
	case st.dead:
		return nil, &store.Error{Op: "message is " + string(store.IsDead), Code: store.ErrConflict}, nil
	case st.leased:
		return nil, &store.Error{Op: "message is " + string(store.Leased), Code: store.ErrConflict}, nil
	}
	return st, nil, nil
}

// takeOut removes a message that is not leased.
func (k looks) takeOut(st *removable) error {
	e, err := k.entry(st.seq)
	if err != nil {
		return err
	}
	return k.withdraw(st, func() error {
		if err := uniques(k).freeUnique(k.topics.byNumber[e.topic].Name, e.unique, e.id); err != nil {
			return err
		}
		return k.forget(st.seq)
	})
}

// withdraw takes a message that is not leased out of its lane, by remove.
func (k looks) withdraw(st *removable, remove func() error) error {
	open, err := k.db.exec(takeSlot, st.topic, st.suspect, st.rank, st.seq)
	if err == nil && st.lane == 0 {
		_, err = k.db.exec(reopen, st.seq)
	}
	if err == nil {
		err = remove()
	}
	if err == nil && open > 0 && st.lane < 0 {
		err = k.open(st.lane, st.topic)
	}
	return err
}

// hasten lets a lane open now that is closed before the message with number ?2.
const hasten = `UPDATE pawl_closed SET at = ?3 WHERE lane = ?1 AND at > ?3
	AND NOT EXISTS (SELECT 1 FROM pawl_msg m WHERE m.lane = ?1 AND m.lane < 0 AND m.seq < ?2)`

// hastenTried is hasten for a message that was given out before: its lane is closed for its sake, not by a hold.
const hastenTried = hasten + ` AND EXISTS (SELECT 1 FROM pawl_tried t WHERE t.seq = ?2)`

// RunNow implements [store.Inspector].
func (s *inspector) RunNow(ctx context.Context, ids ...string) (map[string]error, error) {
	return s.each(ctx, "run", ids, func(k *work, id string) (refused, err error) {
		st, refused, err := looks{k}.notLeased("run", id)
		if st == nil {
			return refused, err
		}
		return nil, looks{k}.opening(hasten, st, func() error { return nil })
	})
}

// Skip implements [store.Inspector].
func (s *inspector) Skip(ctx context.Context, reason string, ids ...string) (map[string]error, error) {
	return s.each(ctx, "skip", ids, func(k *work, id string) (refused, err error) {
		st, refused, err := looks{k}.notLeased("skip", id)
		if st == nil {
			return refused, err
		}
		return nil, looks{k}.opening(hasten, st, func() error {
			return looks{k}.withdraw(st, func() error {
				return k.makeDead(st.seq, k.now, pawl.KindSkipped, store.Text(reason))
			})
		})
	})
}

// opening lets the lane open, by hasten, that is closed before a message, after then.
func (k looks) opening(hasten string, st *removable, then func() error) error {
	hastened, err := k.db.exec(hasten, cmp.Or(st.lane, st.seq), st.seq, k.now)
	if err == nil {
		err = then()
	}
	if err == nil && hastened > 0 {
		k.state.closedDue = k.now
		err = k.openAll()
	}
	return err
}

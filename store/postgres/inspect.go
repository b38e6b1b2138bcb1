package postgres

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// inspector looks at messages, takes them out and brings them forward.
type inspector struct {
	*core
	upkeep   *upkeep
	registry *registry
}

// states is the expression for the state of a message m, given its lease l and the claims h of
// messages that are lanes of their own.
const (
	heldSolo = `held AS MATERIALIZED (SELECT l AS lane FROM @claim c, unnest(c.lanes) l WHERE l > 0 AND (c.gone IS NULL OR l <> ALL (c.gone)))`
	stateOfM = `CASE WHEN h.lane IS NOT NULL OR l.token > 0 AND m.seq BETWEEN l.first AND l.last AND (l.run IS NULL OR m.seq = ANY (l.run)) THEN 'leased'
		WHEN coalesce(l.token, 1) <= 0 AND (m.lane > 0 OR NOT EXISTS (SELECT FROM @msg b WHERE b.lane = m.lane AND b.seq < m.seq)) THEN 'delayed'
		ELSE 'waiting' END`
	// listKeys: $1 topic (0: any), $2 key (empty: any), $3 state (empty: any), $4
	// limit, and after which topic, rank and seq: $5, $6, $7.
	listKeys = listOf + `@msg m` + listWhere
	// listLane is the same for a key that makes a lane, $8: the messages that are in it, and
	// those that join it when they are due.
	listLane = listOf + `(SELECT o.* FROM @msg o WHERE o.lane = $8::bigint
		UNION ALL SELECT o.* FROM @lease j JOIN @msg o ON o.lane = j.lane WHERE j.token = -1) m` + listWhere
	// listLeased is the same for leased messages; its cost does not depend on how many wait.
	listLeased = listOf + `(SELECT o.lane, o.seq, o.rank, o.topic, o.key FROM held c JOIN @msg o ON o.lane = c.lane
		UNION SELECT o.lane, o.seq, o.rank, o.topic, o.key FROM @lease j JOIN @msg o ON o.lane = j.lane AND o.seq BETWEEN j.first AND j.last
		WHERE j.token > 0) m` + listWhere
	// listAll is the same of any state, which is not looked up then.
	listAll = `SELECT m.lane, m.seq, t.name, m.rank FROM @msg m JOIN @topic t ON t.id = m.topic
		WHERE $3::text = '' AND ` + listAfter
	listOf    = `WITH ` + heldSolo + ` SELECT m.lane, m.seq, t.name, m.rank FROM `
	listWhere = ` JOIN @topic t ON t.id = m.topic
		LEFT JOIN @lease l ON l.lane = m.lane LEFT JOIN held h ON h.lane = m.lane
		WHERE ($3::text = '' OR $3::text = ` + stateOfM + `) AND ` + listAfter
	// The empty text keeps the index of names out of it: all messages would be read for each name.
	listAfter = `($1::int = 0 OR m.topic = $1::int) AND ($2::bytea = '' OR m.key = $2::bytea)
			AND (t.name > $5::text COLLATE "C" OR t.name = $5::text AND (m.rank, m.seq) > ($6::bigint, $7::bigint))
		ORDER BY t.name || '', m.rank, m.seq LIMIT $4::bigint`
	// whichDead: $1 topic (0: any), $2 key, $3 kind, $4 part of the reason, $5
	// fingerprint, $6 since, $7 until, $8 after which, $9 limit, $10 whether they
	// are resolved (empty: either).
	listDead  = `SELECT ` + deadColumns + ` FROM @dead m ` + whichDead
	listBrief = `SELECT m.id, m.topic, m.prio, m.replays, m.rank, m.vis, m.key, m.meta, ''::bytea, m.attempts, m.rescues, m.lonely, m.reason,
		'{}'::text[], m.dead_at, m.kind, m.fingerprint, m.n,
		m.resolved_at, m.resolved_by, m.note FROM @dead m ` + whichDead
	whichDead = `
		WHERE ($1::int = 0 OR m.topic = $1::int) AND ($2::bytea = '' OR m.key = $2::bytea) AND ($3::text = '' OR m.kind = $3::text)
			AND ($4::text = '' OR position(lower($4::text) IN lower(m.reason)) > 0) AND ($5::text = '' OR m.fingerprint = $5::text)
			AND m.dead_at >= $6::timestamptz AND m.dead_at < $7::timestamptz AND m.n > $8::bigint
			AND ($10::text = '' OR $10::text = (m.resolved_at IS NOT NULL)::text)
		ORDER BY m.n LIMIT $9::bigint`
)

var listOfState = map[store.State]string{"": listAll, store.Leased: listLeased}

// Pages of a listing.
const (
	keyPage    = 20_000
	recordPage = 500
	briefPage  = 5000 // of dead letters of which little is read
)

type listKey struct {
	lane, seq, rank int64
	topic           string
}

// List implements [store.Inspector].
func (s *inspector) List(ctx context.Context, f store.Filter) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if err := s.guard(ctx, "list", s.catchUp); err != nil {
			yield(store.Record{}, err)
			return
		}
		topic, there := s.listed(f.Topic)
		if !there {
			return
		}
		if f.State == store.Acked {
			s.listAcked(ctx, topic, f, yield)
			return
		}
		after, given, ahead, pages := listKey{}, 0, keyPage, sqlstore.Pages{Most: recordPage, Whole: true}
		if f.Limit > 0 && f.OlderThan == 0 { // hardly one of them is left out
			ahead = min(f.Limit, keyPage)
		}
		for {
			keys, err := s.keys(ctx, topic, f, after, ahead)
			if err != nil {
				yield(store.Record{}, err)
				return
			}
			for page := range sqlstore.Chunk(keys, &pages) {
				if !s.listPage(ctx, f, page, &pages, &given, yield) {
					return
				}
			}
			if len(keys) < ahead {
				return
			}
			after = keys[len(keys)-1]
		}
	}
}

// listed returns the number of a topic to be listed, 0 for any; false if there is no
// such topic.
func (s *inspector) listed(topic string) (id int32, there bool) {
	if topic == "" {
		return 0, true
	}
	if t := s.topics.named(topic); t != nil {
		return t.id, true
	}
	return 0, false
}

func (s *inspector) keys(ctx context.Context, topic int32, f store.Filter, after listKey, ahead int) (keys []listKey,
	err error) {
	sql, args := cmp.Or(listOfState[f.State], listKeys), [][]byte{
		int4Value(topic), bytesValue(f.Key), textValue(string(f.State)), int8Value(int64(ahead)),
		textValue(after.topic), int8Value(after.rank), int8Value(after.seq),
	}
	if of := s.topics.named(f.Topic); topic != 0 && len(f.Key) > 0 && of != nil && of.Order == store.OrderKey {
		sql, args = listLane, append(args, int8Value(sqlstore.KeyLane(int64(topic), f.Key)))
	}
	err = s.cold(ctx, "list", func(ctx context.Context, t *tx) error {
		keys, err = query(ctx, t, func(r row) (listKey, error) {
			return listKey{lane: r.int8(0), seq: r.int8(1), topic: r.text(2), rank: r.int8(3)}, nil
		}, sql, args...)
		return err
	})
	return keys, err
}

// listPage yields the records of some keys; false to stop.
func (s *inspector) listPage(ctx context.Context, f store.Filter, page []listKey, pages *sqlstore.Pages,
	given *int, yield func(store.Record, error) bool) bool {
	records, now, err := s.records(ctx, page)
	if err != nil {
		yield(store.Record{}, err)
		return false
	}
	for _, rec := range records {
		pages.Read(&rec)
		if f.State != "" && rec.State != f.State || f.OlderThan > 0 &&
			now-rec.EnqueuedAt.UnixMicro() <= f.OlderThan.Microseconds() {
			continue
		}
		*given++
		if !yield(rec, nil) || *given == f.Limit {
			return false
		}
	}
	return true
}

func (s *inspector) records(ctx context.Context, page []listKey) (records []store.Record, now int64, err error) {
	lanes := column(page, func(k *listKey) int64 { return k.lane })
	seqs := column(page, func(k *listKey) int64 { return k.seq })
	err = s.guard(ctx, "list", func(ctx context.Context) error {
		return s.callAfresh(ctx, s.front, func() { records = nil },
			read(readClock, set(&now, row.micros), s.skewValue()),
			read(liveRecords, collect(&records, s.readLive), lanes, seqs))
	})
	return records, now, err
}

// Dead implements [store.DeadLetters].
func (s *inspector) Dead(ctx context.Context, f store.DeadFilter) iter.Seq2[store.Record, error] {
	since, until := int64(-1<<63), int64(1<<62)
	if !f.Since.IsZero() {
		since = f.Since.UnixMicro()
	}
	if !f.Until.IsZero() {
		until = f.Until.UnixMicro()
	}
	resolved := ""
	if f.Resolved != nil {
		resolved = strconv.FormatBool(*f.Resolved)
	}
	size, columns := recordPage, listDead
	if f.Brief && !f.Searches() {
		size, columns = briefPage, listBrief
	}
	return sqlstore.ListDead(f, size, true, func(after int64, limit int) (page []sqlstore.Letter, err error) {
		if after == 0 {
			err = s.guard(ctx, "list dead letters", s.catchUp)
		}
		topic, there := s.listed(f.Topic)
		if err != nil || !there {
			return nil, err
		}
		err = s.cold(ctx, "list dead letters", func(ctx context.Context, t *tx) error {
			page, err = query(ctx, t, func(r row) (sqlstore.Letter, error) {
				rec, err := s.readDead(r)
				return sqlstore.Letter{Record: rec, Number: r.int8(17)}, err
			}, columns, int4Value(topic), bytesValue(f.Key), textValue(store.Text(string(f.Kind))),
				textValue(store.Text(f.Reason)), textValue(store.Text(f.Fingerprint)), timeValue(since),
				timeValue(until), int8Value(after), int8Value(int64(limit)), textValue(resolved))
			return err
		})
		return page, err
	})
}

// Statements of Cancel. A message that is a lane of its own may be taken together with its
// ticket, any other one with the latch of its lane. A holder of the latch does not wait for
// tickets: a claim that holds one may be waiting for the latch. A ticket that is left behind is
// spent.
const (
	findMany  = `SELECT m.id, m.lane, m.seq, m.topic, m.prio, m.rank FROM unnest($1::bytea[]) x(id) CROSS JOIN LATERAL (SELECT * FROM @msg m WHERE m.id = x.id OFFSET 0) m`
	deadAmong = `SELECT d.id FROM unnest($1::bytea[]) x(id) CROSS JOIN LATERAL (SELECT d.id FROM @dead d WHERE d.id = x.id OFFSET 0) d`
	// takeBack and takeSpare: tickets by topic, priority, rank and seq.
	takeBack  = takeOf + `OFFSET 0) s)) RETURNING seq, lane`
	takeSpare = takeOf + `FOR UPDATE SKIP LOCKED) s))`
	takeOf    = `DELETE FROM @slot WHERE ctid = ANY (ARRAY(
		SELECT s.ctid FROM unnest($1::int[], $2::smallint[], $3::bigint[], $4::bigint[]) x(topic, prio, rank, seq) CROSS JOIN LATERAL (VALUES (x.prio::int), (128 + x.prio), (386), (387), (388)) g(bits)
		CROSS JOIN LATERAL (SELECT s.ctid FROM @slot s WHERE s.band = x.topic * 512::bigint + g.bits AND s.rank = x.rank AND s.seq = x.seq `
	takeWaiting = `DELETE FROM @lease WHERE lane = ANY ($1::bigint[]) AND token <= 0 RETURNING lane`
	latchLanes  = `INSERT INTO @lease AS l (lane, token, reach, first, last) SELECT lane, $2::bigint, 0, 0, -1 FROM unnest($1::bigint[]) lane ORDER BY lane
		ON CONFLICT (lane) DO UPDATE SET reach = l.reach RETURNING l.lane, l.token, l.first, l.last, l.run`
	unlatch = `DELETE FROM @lease WHERE lane = ANY ($1::bigint[]) AND token = $2::bigint`
	// removeMessages: $1 lanes, $2 seqs; between its parts what they count as.
	removeMessages   = removeMessagesAs + `3` + removeMessagesOf
	removeMessagesAs = `
WITH d AS (DELETE FROM @msg WHERE ctid = ANY (ARRAY(
		SELECT m.ctid FROM unnest($1::bigint[], $2::bigint[]) x(lane, seq)
		CROSS JOIN LATERAL (SELECT m.ctid FROM @msg m WHERE m.lane = x.lane AND m.seq = x.seq OFFSET 0) m)) RETURNING id, topic, uniq, seq),
y AS (INSERT INTO @tally (topic, what, n) SELECT topic, `
	removeMessagesOf = `, count(*) FROM d GROUP BY topic),
` + dropUniques + `
SELECT id FROM d`
	// hasten: lanes that are closed before messages with these numbers are due now; unless $4 says so, not those that
	// a hold closes: before a message that was never given out.
	hasten = `UPDATE @lease SET until = n.at FROM (SELECT clock_timestamp() + $3::interval AS at) n
		WHERE ctid = ANY (ARRAY(SELECT l.ctid FROM unnest($1::bigint[], $2::bigint[]) x(lane, seq)
			CROSS JOIN LATERAL (SELECT l.ctid FROM @lease l WHERE l.lane = x.lane AND l.token <= 0
				AND NOT EXISTS (SELECT FROM @msg b WHERE b.lane = x.lane AND b.seq < x.seq)
				AND ($4 OR EXISTS (SELECT FROM @tried t WHERE t.seq = x.seq)) ORDER BY l.lane FOR UPDATE) l))
			AND token <= 0 AND until > n.at`
	ticketLanes = `WITH x AS (SELECT lane, 9223372036854775807 AS reach, 0::bigint AS rank FROM unnest($1::bigint[]) lane)` +
		ticketHeads
)

// cancelling is one message to be cancelled.
type cancelling struct {
	id              string
	lane, seq, rank int64
	topic           int32
	prio            int16
}

// Cancel implements [store.Inspector].
func (s *inspector) Cancel(ctx context.Context, ids ...string) (refused map[string]error, err error) {
	return s.takeOut(ctx, "cancel", ids, func(_ *tx, free []cancelling, refused map[string]error) (group, error) {
		lanes, seqs := positions(free)
		removed := func(r row) error { delete(refused, r.messageID(0)); return nil }
		return group{do(hasten, lanes, seqs, s.skewValue(), boolValue(false)),
			read(removeMessages, removed, lanes, seqs)}, nil
	})
}

// Skip implements [store.Inspector].
func (s *inspector) Skip(ctx context.Context, reason string, ids ...string) (refused map[string]error, err error) {
	return s.takeOut(ctx, "skip", ids, func(t *tx, free []cancelling, refused map[string]error) (group, error) {
		w := &writing{}
		if len(free) == 0 {
			return nil, nil
		}
		if err := t.run(ctx, read(readClock, set(&w.at, row.micros), s.skewValue())); err != nil {
			return nil, err
		}
		for _, m := range free {
			w.makeDead(m.lane, m.seq, pawl.KindSkipped, store.Text(reason))
			delete(refused, m.id)
		}
		lanes, seqs := positions(free)
		return append(group{do(hasten, lanes, seqs, s.skewValue(), boolValue(true))}, w.steps(s.core)...), nil
	})
}

// RunNow implements [store.Inspector].
func (s *inspector) RunNow(ctx context.Context, ids ...string) (refused map[string]error, err error) {
	ids = sqlstore.Distinct(ids)
	err = s.guard(ctx, "run", func(ctx context.Context) error {
		if err := s.catchUp(ctx); err != nil {
			return err
		}
		return s.within(ctx, s.front, nil, func(t *tx) error {
			found, no, err := s.find(ctx, t, "run", ids)
			refused = no
			if err != nil || len(found) == 0 {
				return err
			}
			lanes, seqs := positions(found)
			var records []store.Record
			err = t.run(ctx, do(hasten, lanes, seqs, s.skewValue(), boolValue(true)),
				read(liveRecords, collect(&records, s.readLive), lanes, seqs))
			for i := range records {
				if records[i].State != store.Leased {
					delete(no, records[i].ID)
				}
			}
			return err
		})
	})
	if err == nil {
		err = s.openHastened(ctx, "run")
	}
	return refused, err
}

// openHastened opens the lanes that were made due, so that claimers that wait for them are
// woken.
func (s *inspector) openHastened(ctx context.Context, op string) error {
	return s.guard(ctx, op, func(ctx context.Context) error {
		s.upkeep.sweeper.mu.Lock()
		defer s.upkeep.sweeper.mu.Unlock()
		if _, err := s.upkeep.sweep(ctx, s.upkeep.sweeper.above()); err != nil && !isServer(err) {
			return err
		}
		return nil
	})
}

// takeOut takes messages that are not leased out of their lanes. What do returns is carried
// out before the lanes are given free, and takes those that it did from refused.
func (s *inspector) takeOut(ctx context.Context, op string, ids []string,
	do func(t *tx, free []cancelling, refused map[string]error) (group, error)) (refused map[string]error, err error) {
	ids = sqlstore.Distinct(ids)
	err = s.guard(ctx, op, func(ctx context.Context) error {
		if err := s.catchUp(ctx); err != nil {
			return err
		}
		return s.within(ctx, s.front, nil, func(t *tx) (err error) {
			refused, err = s.takeOutOf(ctx, t, op, ids, do)
			return err
		})
	})
	if err == nil {
		err = s.openHastened(ctx, op)
	}
	return refused, err
}

func encodeIDs(ids []string) []byte {
	encoded := make([][]byte, len(ids))
	for i, id := range ids {
		encoded[i] = sqlstore.EncodeID(id)
	}
	return bytesArray(encoded)
}

// sortedIDs is ids in the order in which everybody locks dead letters.
func sortedIDs(ids []string) []byte {
	return encodeIDs(slices.Sorted(slices.Values(ids)))
}

func (s *inspector) takeOutOf(ctx context.Context, t *tx, op string, ids []string,
	what func(t *tx, free []cancelling, refused map[string]error) (group, error)) (map[string]error, error) {
	found, refused, err := s.find(ctx, t, op, ids)
	if err != nil {
		return nil, err
	}
	var solo, keyed []cancelling
	for _, m := range found {
		if m.lane > 0 {
			solo = append(solo, m)
		} else {
			keyed = append(keyed, m)
		}
	}
	free, err := s.freeSolo(ctx, t, solo)
	if err != nil {
		return nil, err
	}
	after, mine, err := s.freeKeyed(ctx, t, keyed, &free)
	if err != nil {
		return nil, err
	}
	steps, err := what(t, free, refused)
	if err != nil {
		return nil, err
	}
	steps = append(steps, do(unlatch, int8Array(after), int8Value(mine)))
	return refused, t.run(ctx, append(steps, ticketsAfter(after)...)...)
}

// find is where messages are that are not dead; refused says why each of ids is refused,
// unless something is done to it.
func (s *inspector) find(ctx context.Context, t *tx, op string, ids []string) (found []cancelling,
	refused map[string]error, err error) {
	refused = map[string]error{}
	for _, id := range ids {
		refused[id] = notFound(op, id)
	}
	conflict := func(id, hint string) {
		refused[id] = &store.Error{Op: op + " " + id, Code: store.ErrConflict, Hint: hint}
	}
	err = t.run(ctx, read(findMany, func(r row) error {
		found = append(found, cancelling{r.messageID(0), r.int8(1), r.int8(2), r.int8(5), r.id(3), int16(r.int2(4))})
		conflict(found[len(found)-1].id, "it is leased")
		return nil
	}, encodeIDs(ids)), read(deadAmong, func(r row) error {
		conflict(r.messageID(0), "it is a dead letter")
		return nil
	}, encodeIDs(ids)))
	return found, refused, err
}

func ticketsAfter(lanes []int64) group {
	if len(lanes) == 0 {
		return nil
	}
	return group{do(ticketLanes, int8Array(lanes))}
}

// positions are the lanes and the numbers of messages.
func positions(ms []cancelling) (lanes, seqs []byte) {
	lanes = column(ms, func(m *cancelling) int64 { return m.lane })
	return lanes, column(ms, func(m *cancelling) int64 { return m.seq })
}

func tickets(ms []cancelling) [][]byte {
	topics, prios := make([]int32, len(ms)), make([]int16, len(ms))
	for i, m := range ms {
		topics[i], prios[i] = m.topic, m.prio
	}
	_, seqs := positions(ms)
	ranks := column(ms, func(m *cancelling) int64 { return m.rank })
	return [][]byte{int4Array(topics), int2Array(prios), ranks, seqs}
}

// freeSolo makes messages that are not leased unclaimable.
func (s *inspector) freeSolo(ctx context.Context, t *tx, ms []cancelling) (free []cancelling, err error) {
	if len(ms) == 0 {
		return nil, nil
	}
	taken := map[int64]bool{}
	lanes, _ := positions(ms)
	taking := note(taken, row.int8)
	err = t.run(ctx, read(takeBack, taking, tickets(ms)...), read(takeWaiting, taking, lanes))
	for _, m := range ms {
		if taken[m.lane] {
			free = append(free, m)
		}
	}
	return free, err
}

// freeKeyed latches the lanes of messages, adds those that are in no run to
// free, and returns the lanes that nobody else holds.
func (s *inspector) freeKeyed(ctx context.Context, t *tx, ms []cancelling,
	free *[]cancelling) (mine []int64, token int64, err error) {
	token = sqlstore.NewFence()
	if len(ms) == 0 {
		return nil, token, nil
	}
	var lanes []int64
	for _, m := range ms {
		lanes = append(lanes, m.lane)
	}
	slices.Sort(lanes)
	lanes = slices.Compact(lanes)
	latches := map[int64]latch{}
	err = t.run(ctx, read(latchLanes, func(r row) error {
		l := latch{last: -1} // ours, or closed: its head is no more than waiting
		if holder := r.int8(1); holder == token {
			mine = append(mine, r.int8(0))
		} else if holder > 0 {
			l = latch{r.int8(2), r.int8(3), r.int8s(4)}
		}
		latches[r.int8(0)] = l
		return nil
	}, int8Array(lanes), int8Value(token)))
	if err != nil {
		return nil, token, err
	}
	var gone []cancelling
	for _, m := range ms {
		if l, ok := latches[m.lane]; ok && !l.has(m.seq) {
			gone = append(gone, m)
		}
	}
	*free = append(*free, gone...)
	return mine, token, t.run(ctx, do(takeSpare, tickets(gone)...))
}

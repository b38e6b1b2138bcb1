package postgres

import (
	"context"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

const (
	lockContent = `SELECT d.id, d.topic, d.meta, d.vis, d.body FROM unnest($1::bytea[]) x(id)
		CROSS JOIN LATERAL (SELECT * FROM @dead d WHERE d.id = x.id FOR UPDATE) d`
	writeContent = `UPDATE @dead SET meta = $2::text, body = $3::bytea WHERE id = $1::bytea`
	// whichOf finds ids that are there, in any state.
	whichOf = `SELECT x.id, EXISTS (SELECT FROM @msg m WHERE m.id = x.id OFFSET 0),
		EXISTS (SELECT FROM @dead d WHERE d.id = x.id OFFSET 0)
		OR EXISTS (SELECT FROM @acked a WHERE a.id = x.id AND a.until > clock_timestamp() + $2::interval OFFSET 0)
		FROM unnest($1::bytea[]) x(id)`
	insertDead = `INSERT INTO @dead (n, id, lane, rank, vis, topic, prio, replays, key, uniq, meta, body, attempts, rescues, lonely,
			dead_at, kind, reason, fingerprint, history)
		VALUES ($20::bigint, $1::bytea, $2::bigint, $3::bigint, $4::timestamptz, $5::int, $6::smallint, $7::smallint, $8::bytea, $9::bytea,
			$10::text, $11::bytea, $12::int, $13::int, $14::int, $15::timestamptz, $16::text, $17::text, $18::text, $19::text[])
		ON CONFLICT (id) DO NOTHING RETURNING 1`
	numberDead = `SELECT nextval('@dead_seq') FROM generate_series(1, $1::int)`
)

// Edit implements [store.DeadLetters].
func (s *letters) Edit(ctx context.Context, edits ...store.Edit) (refused map[string]error, err error) {
	invalid, err := backend.AdmitEdit(edits)
	if err != nil {
		return nil, err
	}
	err = s.guard(ctx, "edit", func(ctx context.Context) error {
		if err := s.inspector.catchUp(ctx); err != nil {
			return err
		}
		return s.within(ctx, s.front, nil, func(t *tx) error {
			refused = maps.Clone(invalid)
			return s.edit(ctx, t, edits, refused)
		})
	})
	return refused, err
}

func (s *letters) edit(ctx context.Context, t *tx, edits []store.Edit, refused map[string]error) error {
	var ids []string
	for i := range edits {
		ids = append(ids, edits[i].ID)
	}
	type content struct {
		pawl.Message
		enqueued int64
	}
	found := map[string]*content{}
	err := t.run(ctx, read(lockContent, func(r row) (err error) {
		c := &content{Message: pawl.Message{ID: r.messageID(0), Topic: "any", Body: r.bytes(4)}}
		c.enqueued, err = decodeMeta(&c.Message, r[2], r.micros(3))
		found[c.ID] = c
		return err
	}, sortedIDs(ids)))
	if err != nil {
		return err
	}
	live, _, err := s.which(ctx, t, ids)
	if err != nil {
		return err
	}
	changed := map[string]bool{}
	for i := range edits {
		a := &edits[i]
		c := found[a.ID]
		switch {
		case refused[a.ID] != nil:
		case c != nil:
			if why := a.Apply(&c.Message); why != nil {
				refused[a.ID] = why
			} else {
				changed[a.ID] = true
			}
		case live[a.ID]:
			refused[a.ID] = &store.Error{Op: "edit " + a.ID, Code: store.ErrConflict, Hint: "it is not a dead letter"}
		default:
			refused[a.ID] = notFound("edit", a.ID)
		}
	}
	var g group
	for id := range changed {
		if c := found[id]; refused[id] == nil {
			g = append(g, do(writeContent, sqlstore.EncodeID(id), textValue(encodeMeta(&c.Message, c.enqueued)),
				bytesValue(c.Body)))
		}
	}
	if len(g) == 0 {
		return nil
	}
	return t.run(ctx, g...)
}

// which returns which of the ids are alive, and which are there as dead letters or retained.
func (s *letters) which(ctx context.Context, t *tx, ids []string) (live, other map[string]bool, err error) {
	live, other = map[string]bool{}, map[string]bool{}
	err = t.run(ctx, read(whichOf, func(r row) error {
		id := r.messageID(0)
		live[id], other[id] = r.bool(1), r.bool(2)
		return nil
	}, encodeIDs(ids), s.skewValue()))
	return live, other, err
}

// Import implements [store.DeadLetters]. A concurrent append of the same id may not see
// it, nor be seen: imported letters must not be sent at the same time.
func (s *letters) Import(ctx context.Context, letters ...store.Record) (refused map[string]error, err error) {
	fit, invalid, err := backend.AdmitImport(letters)
	if err != nil {
		return nil, err
	}
	places := map[place]bool{}
	for i := range fit {
		places[place{fit[i].Topic, fit[i].Priority}] = true
	}
	err = s.guard(ctx, "import", func(ctx context.Context) error {
		if err := s.inspector.catchUp(ctx); err != nil {
			return err
		}
		if err := s.registry.ensure(ctx, places); err != nil {
			return err
		}
		return s.within(ctx, s.front, nil, func(t *tx) error {
			refused = maps.Clone(invalid)
			return s.importAll(ctx, t, fit, refused)
		})
	})
	return refused, err
}

func (s *letters) importAll(ctx context.Context, t *tx, letters []store.Record, refused map[string]error) error {
	var ids []string
	for i := range letters {
		ids = append(ids, letters[i].ID)
	}
	live, other, err := s.which(ctx, t, ids)
	if err != nil {
		return err
	}
	var numbers []int64
	err = t.run(ctx, read(numberDead, add(&numbers, row.int8), int4Value(int32(len(letters)))))
	if err != nil {
		return err
	}
	w, imported := &writing{}, map[string]bool{}
	steps := map[string]step{}
	for i := range letters {
		r := &letters[i]
		if live[r.ID] || other[r.ID] {
			continue
		}
		to := s.topics.named(r.Topic)
		if to == nil {
			return unexpected("no topic " + r.Topic)
		}
		st := storeDead(r, to, numbers[i])
		st.row = func(row) error {
			imported[r.ID] = true
			w.count(to.id, tallyAppended, 1)
			return nil
		}
		steps[r.ID] = st
	}
	var g group // in the order in which everybody locks, whatever that of the letters
	for _, id := range slices.Sorted(maps.Keys(steps)) {
		g = append(g, steps[id])
	}
	if len(g) > 0 {
		if err := t.run(ctx, g...); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if !imported[id] {
			refused[id] = backend.ImportConflict(id)
		}
	}
	if len(imported) == 0 {
		return nil
	}
	g = w.tally()
	for i := range letters {
		if l := &letters[i]; imported[l.ID] && l.Resolved != nil {
			g = append(g, do(markResolved, sqlstore.EncodeID(l.ID), timeValue(l.Resolved.At.UnixMicro()),
				textValue(l.Resolved.By), textValue(l.Resolved.Note)))
		}
	}
	return t.run(ctx, g...)
}

// storeDead is the statement that stores a dead letter under a number.
func storeDead(r *store.Record, to *topic, number int64) step {
	lane := int64(0)
	if r.Key != nil {
		lane = sqlstore.KeyLane(int64(to.id), r.Key)
	}
	var uniq []byte
	if r.Unique.For <= 0 {
		uniq = uniqueKey(&r.Message)
	}
	history := make([]string, len(r.History))
	for i, a := range r.History {
		history[i] = string(sqlstore.EncodeAttempt(a))
	}
	return do(insertDead, sqlstore.EncodeID(r.ID), int8Value(lane), int8Value(r.Rank),
		timeValue(r.EnqueuedAt.UnixMicro()+micros(r.Delay)),
		int4Value(to.id), int2Value(int16(r.Priority)), int2Value(int16(r.Replays)), bytesValue(r.Key),
		bytesValue(uniq),
		textValue(encodeMeta(&r.Message, 0)), bytesValue(r.Body), int4Value(int32(r.Attempts)),
		int4Value(int32(r.Rescues)),
		int4Value(int32(r.Lonely)), timeValue(r.DeadAt.UnixMicro()), textValue(string(r.Kind)), textValue(r.Reason),
		textValue(r.Fingerprint), textArray(history), int8Value(number))
}

package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

const (
	selectContent = `SELECT headers, body FROM pawl_msg WHERE seq = ?`
	updateContent = `UPDATE pawl_msg SET headers = ?, body = ? WHERE seq = ?`
)

// Edit implements [store.DeadLetters].
func (s *letters) Edit(ctx context.Context, edits ...store.Edit) (map[string]error, error) {
	invalid, err := backend.AdmitEdit(edits)
	if err != nil {
		return nil, err
	}
	byID := map[string][]*store.Edit{}
	var ids []string
	for i := range edits {
		a := &edits[i]
		if byID[a.ID] = append(byID[a.ID], a); len(byID[a.ID]) == 1 {
			ids = append(ids, a.ID)
		}
	}
	return s.inspector.each(ctx, "edit", ids, func(k *work, id string) (refused, err error) {
		if invalid[id] != nil {
			return invalid[id], nil
		}
		return letterWork{k}.edit(id, byID[id])
	})
}

func (k letterWork) edit(id string, edits []*store.Edit) (refused, err error) {
	st, err := looks(k).removable(id)
	switch {
	case err != nil:
		return nil, err
	case st == nil || st.acked:
		return notFound("edit", id), nil
	case !st.dead:
		return &store.Error{Op: "edit " + id, Code: store.ErrConflict, Hint: "it is not a dead letter"}, nil
	}
	m := pawl.Message{Topic: k.topics.byNumber[st.topic].Name}
	err = k.db.query(selectContent, func(r row) (err error) {
		m.Headers, err = sqlstore.DecodeHeaders(r.bytes(0))
		m.Body = append([]byte(nil), r.bytes(1)...)
		return err
	}, st.seq)
	if err != nil {
		return nil, err
	}
	for _, a := range edits {
		if err := a.Apply(&m); err != nil {
			return err, nil
		}
	}
	_, err = k.db.exec(updateContent, blob(sqlstore.EncodeHeaders(m.Headers)), blob(m.Body), st.seq)
	return nil, err
}

const (
	insertBuried = `INSERT INTO pawl_msg (seq, lane, topic, prio, rank, enqueued, hidden, delay, replays, id, key, headers, uniq, body)
		VALUES (?, 0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`
	insertTried = `INSERT INTO pawl_tried (seq, attempts, rescues, lonely, reason) VALUES (?, ?, ?, ?, ?)`
)

// Import implements [store.DeadLetters].
func (s *letters) Import(ctx context.Context, letters ...store.Record) (map[string]error, error) {
	fit, invalid, err := backend.AdmitImport(letters)
	if err != nil {
		return nil, err
	}
	byID := map[string]*store.Record{}
	var ids []string
	for i := range fit {
		byID[fit[i].ID] = &fit[i]
		ids = append(ids, fit[i].ID)
	}
	refused, err := s.inspector.each(ctx, "import", ids, func(k *work, id string) (refused, err error) {
		stored, err := letterWork{k}.storeDead(byID[id])
		if err == nil && !stored {
			refused = backend.ImportConflict(id)
		}
		return refused, err
	})
	for id, why := range invalid {
		if refused != nil && refused[id] == nil {
			refused[id] = why
		}
	}
	return refused, err
}

// storeDead stores a dead letter; false if its id is there.
func (k letterWork) storeDead(r *store.Record) (bool, error) {
	eid := sqlstore.EncodeID(r.ID)
	if _, err := k.forgetRetained(eid); err != nil {
		return false, err
	}
	t, err := k.topic(r.Topic)
	if err != nil {
		return false, err
	}
	k.state.seq++
	seq := k.state.seq
	stored, err := k.db.exec(insertBuried, seq, t.number, int64(r.Priority), r.Rank, r.EnqueuedAt.UnixMicro(),
		micros(r.Delay),
		int64(r.Delay), int64(r.Replays), eid, blob(r.Key), blob(sqlstore.EncodeHeaders(r.Headers)),
		blob(encodeUnique(r.Unique)), blob(r.Body))
	if err != nil || stored == 0 {
		return false, err
	}
	if _, err := k.db.exec(insertTried, seq, int64(r.Attempts), int64(r.Rescues), int64(r.Lonely),
		r.Reason); err != nil {
		return false, err
	}
	for _, a := range r.History {
		if err := k.record(seq, a); err != nil {
			return false, err
		}
	}
	hash := int64(0)
	if r.Key != nil {
		hash = sqlstore.KeyLane(t.number, r.Key)
	}
	k.of(t.number).appended++
	_, err = k.db.exec(insertDead, seq, t.number, hash, r.DeadAt.UnixMicro(), string(r.Kind), r.Reason, r.Fingerprint)
	if err == nil && r.Resolved != nil {
		err = k.setResolved(seq, r.Resolved)
	}
	return true, err
}

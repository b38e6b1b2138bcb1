package memory

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// inspector looks at messages, dead letters and results, and moves them.
type inspector struct{ *core }

// Get implements [store.Inspector].
func (s *inspector) Get(ctx context.Context, id string) (store.Record, error) {
	now, err := s.enter(ctx, "get")
	if err != nil {
		return store.Record{}, err
	}
	defer s.mu.Unlock()
	m := s.find(now, id)
	if m == nil {
		return store.Record{}, &store.Error{Op: "message " + id, Code: store.ErrNotFound}
	}
	return m.record(), nil
}

// record is a copy of what is known of m.
func (m *message) record() store.Record {
	r := m.Record
	r.Message = own(m.Message)
	r.State = m.state()
	r.History = slices.Clone(m.History)
	if l := m.lane; l != nil {
		switch r.State {
		case store.Delayed:
			r.NotBefore = l.until
		case store.Leased:
			r.Lease = &store.LeaseRecord{
				Owner: l.lease.Owner, Token: pawl.Token{Fence: l.lease.fence, Lane: l.id, Seq: m.seq},
				StartedAt: l.lease.started, Until: l.until, Deadline: l.lease.hard,
			}
		}
	}
	return r
}

// List implements [store.Inspector].
func (s *inspector) List(ctx context.Context, f store.Filter) iter.Seq2[store.Record, error] {
	return s.list(ctx, f.Limit, func(m *message) bool {
		state := m.state()
		there := state == store.Waiting || state == store.Delayed || state == store.Leased
		if f.State == store.Acked {
			there = state == store.Acked && m.forget.After(s.now())
		}
		return there && (f.State == "" || f.State == state) && (f.Topic == "" || f.Topic == m.Topic) &&
			(f.Key == nil || bytes.Equal(f.Key, m.Key)) && (f.OlderThan == 0 || s.now().Sub(m.EnqueuedAt) > f.OlderThan)
	}, func(a, b *message) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.seq, b.seq))
	})
}

// Dead implements [store.DeadLetters].
func (s *inspector) Dead(ctx context.Context, f store.DeadFilter) iter.Seq2[store.Record, error] {
	dead := s.list(ctx, f.Limit, func(m *message) bool {
		return m.state() == store.IsDead && f.Matches(&m.Record)
	}, func(a, b *message) int { return cmp.Compare(a.death, b.death) })
	return func(yield func(store.Record, error) bool) {
		for r, err := range dead {
			if f.Shorten(&r); !yield(r, err) {
				return
			}
		}
	}
}

// list yields what matches, in order, as it is when the listing begins.
func (s *inspector) list(ctx context.Context, limit int, match func(*message) bool, order func(a, b *message) int,
) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		if _, err := s.enter(ctx, "list"); err != nil {
			yield(store.Record{}, err)
			return
		}
		var found []*message
		for _, m := range s.messages {
			if match(m) {
				found = append(found, m)
			}
		}
		slices.SortFunc(found, order)
		if limit > 0 && len(found) > limit {
			found = found[:limit]
		}
		records := make([]store.Record, len(found))
		for i, m := range found {
			records[i] = m.record()
		}
		s.mu.Unlock()
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Cancel implements [store.Inspector].
func (s *inspector) Cancel(ctx context.Context, ids ...string) (map[string]error, error) {
	return s.each(ctx, "cancel", ids, func(m *message) error {
		if state := m.state(); state != store.Waiting && state != store.Delayed {
			return &store.Error{Op: "message is " + string(state), Code: store.ErrConflict}
		}
		m.lane.topic.totals.Cancelled++
		if m.state() == store.Delayed && m.Reason != store.CauseAppended {
			s.close(m.lane, s.now()) // until its retry, which nobody waits for now
		}
		s.takeOut(m)
		return nil
	})
}

// RunNow implements [store.Inspector].
func (s *inspector) RunNow(ctx context.Context, ids ...string) (map[string]error, error) {
	return s.each(ctx, "run", ids, s.runNow)
}

func (s *inspector) runNow(m *message) error {
	switch state := m.state(); state {
	case store.Delayed:
		s.close(m.lane, s.now())
	case store.Waiting:
	default:
		return &store.Error{Op: "message is " + string(state), Code: store.ErrConflict}
	}
	return nil
}

// Skip implements [store.Inspector].
func (s *inspector) Skip(ctx context.Context, reason string, ids ...string) (map[string]error, error) {
	return s.each(ctx, "skip", ids, func(m *message) error {
		if err := s.runNow(m); err != nil {
			return err
		}
		s.leaveLane(m)
		s.makeDead(m, s.now(), pawl.KindSkipped, store.Text(reason))
		return nil
	})
}

// takeOut removes a message that is not leased, for good.
func (s *inspector) takeOut(m *message) {
	s.leaveLane(m)
	s.forget(m)
}

// leaveLane takes a message that is not leased out of its lane.
func (s *inspector) leaveLane(m *message) {
	l := m.lane
	if l.heap == &l.topic.ready || l.delayed {
		l.move(nil) // its place depends on its first message
	}
	l.take(m)
	if l.heap == nil {
		s.open(l)
	}
}

// forget removes a message for good.
func (s *inspector) forget(m *message) {
	s.freeUnique(&m.Message)
	delete(s.messages, m.ID)
}

// each does something to messages by id, and collects why it could not.
func (s *inspector) each(ctx context.Context, op string, ids []string, do func(*message) error) (map[string]error, error) {
	now, err := s.enter(ctx, op)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	defer s.setAlarm(now)
	refused := map[string]error{}
	for _, id := range sqlstore.Distinct(ids) {
		m := s.find(now, id)
		if m == nil || m.State == store.Acked {
			refused[id] = &store.Error{Op: op + " " + id, Code: store.ErrNotFound}
		} else if err := do(m); err != nil {
			refused[id] = err
		}
	}
	return refused, nil
}

// eachDead is each for dead letters.
func (s *inspector) eachDead(ctx context.Context, op string, ids []string,
	do func(*message) error) (map[string]error, error) {
	return s.each(ctx, op, ids, func(m *message) error {
		if m.State != store.IsDead {
			return &store.Error{Op: op + " " + m.ID, Code: store.ErrNotFound, Hint: "it is " + string(m.state())}
		}
		return do(m)
	})
}

// Replay implements [store.DeadLetters].
func (s *inspector) Replay(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	return s.replayAll(ctx, topic, false, ids)
}

func (s *inspector) replayAll(ctx context.Context, topic string, keep bool, ids []string) (map[string]error, error) {
	if topic != "" {
		if err := pawl.ValidTopic(topic); err != nil {
			return nil, err
		}
	}
	return s.eachDead(ctx, "replay", ids, func(m *message) error { return s.replay(m, topic, keep) })
}

func (s *inspector) replay(m *message, to string, keep bool) error {
	now := s.now()
	if m.Unique.For <= 0 {
		there := m.Message
		there.Topic = cmp.Or(to, m.Topic) // whose unique key it takes
		if first := s.takeUnique(now, &there); first != "" {
			return &store.Error{Op: "replay " + m.ID, Code: store.ErrConflict,
				Hint: "message " + first + " has its unique key"}
		}
	}
	s.removeDead(m)
	t := s.topics[m.Topic]
	if to != "" && to != m.Topic {
		t.totals.Purged++
		t = s.topic(to)
		t.totals.Appended++
		m.Topic = to
	}
	m.State, m.DeadAt, m.Kind, m.Fingerprint = "", time.Time{}, "", ""
	m.Rescues, m.Lonely, m.Reason, m.Resolved = 0, 0, store.CauseReplayed, nil
	if !keep {
		m.Attempts = 0
	}
	m.Replays++
	m.visible = time.Time{}
	s.place(t, m, now, now)
	return nil
}

// removeDead takes a message out of the dead letters.
func (s *inspector) removeDead(m *message) {
	t := s.topics[m.Topic]
	t.totals.Dead--
	if m.Key == nil {
		return
	}
	k := string(m.Key)
	if t.deadKeys[k]--; t.deadKeys[k] == 0 {
		delete(t.deadKeys, k)
	}
}

// Purge implements [store.DeadLetters].
func (s *inspector) Purge(ctx context.Context, ids ...string) (map[string]error, error) {
	return s.eachDead(ctx, "purge", ids, func(m *message) error {
		s.removeDead(m)
		s.topics[m.Topic].totals.Purged++
		s.forget(m)
		return nil
	})
}

// Edit implements [store.DeadLetters].
func (s *inspector) Edit(ctx context.Context, edits ...store.Edit) (map[string]error, error) {
	refused, err := backend.AdmitEdit(edits)
	if err != nil {
		return nil, err
	}
	now, err := s.enter(ctx, "edit")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for i := range edits {
		a := &edits[i]
		m := s.find(now, a.ID)
		var why error
		switch {
		case refused[a.ID] != nil:
			continue
		case m == nil || m.State == store.Acked:
			why = &store.Error{Op: "edit " + a.ID, Code: store.ErrNotFound}
		case m.State != store.IsDead:
			why = &store.Error{Op: "edit " + a.ID, Code: store.ErrConflict, Hint: "it is " + string(m.state())}
		default:
			why = a.Apply(&m.Message)
		}
		if why != nil {
			refused[a.ID] = why
		}
	}
	return refused, nil
}

// Import implements [store.DeadLetters].
func (s *inspector) Import(ctx context.Context, letters ...store.Record) (map[string]error, error) {
	fit, refused, err := backend.AdmitImport(letters)
	if err != nil {
		return nil, err
	}
	now, err := s.enter(ctx, "import")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for _, r := range fit {
		if s.find(now, r.ID) != nil {
			refused[r.ID] = backend.ImportConflict(r.ID)
			continue
		}
		r.Message = own(r.Message)
		s.topic(r.Topic).totals.Appended++
		m := &message{Record: r}
		s.messages[r.ID] = m
		s.storeDead(m)
	}
	return refused, nil
}

package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/fingerprint"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// Settle implements [store.Store].
func (s *core) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	refused, err := backend.AdmitSettle(batch)
	if err != nil {
		return nil, err
	}
	now, err := s.enter(ctx, "settle")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	if first, ok := s.outcomes[batch.ID]; ok {
		return first.refusals, nil
	}
	bad := map[int]bool{}
	for _, r := range refused {
		bad[r.Index] = true
	}
	for _, i := range inLaneOrder(batch.Items) {
		if !bad[i] && !s.settle(now, &batch.Items[i]) {
			refused = append(refused, store.Refusal{Index: i, Err: pawl.ErrLeaseLost})
		}
	}
	refused = sqlstore.SortRefusals(refused)
	s.remember(now, batch.ID, outcome{refusals: refused})
	s.setAlarm(now)
	return refused, nil
}

// inLaneOrder returns the indexes of items so that those of one lane follow the
// order of the lane.
func inLaneOrder(items []store.Settlement) []int {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(items[a].Token.Seq, items[b].Token.Seq)
	})
	return order
}

// settle ends one delivery; false if its token is stale.
func (s *core) settle(now time.Time, st *store.Settlement) bool {
	l, m := s.held(st.Token)
	if m == nil {
		return false
	}
	switch st.Verdict {
	case store.Ack:
		s.ack(now, l, m, st)
	case store.Dead:
		m.fail(now, st, time.Time{})
		l.take(m)
		s.makeDead(m, now, pawl.Kind(store.Text(string(st.Failure.Kind))), store.Text(st.Failure.Error))
		s.end(l, now, st.Closes())
	case store.Retry:
		l.topic.totals.Retried++
		if l.topic.Tail && l.keyed {
			s.retryAtTail(now, l, m, st)
			return true
		}
		m.fail(now, st, now.Add(st.Closes()))
		s.end(l, now, st.Closes())
	case store.Release:
		m.Reason = backend.ReleasedReason(&st.Failure)
		s.end(l, now, st.Closes())
	}
	return true
}

// ack forgets a message and lets what it emitted appear.
func (s *core) ack(now time.Time, l *lane, m *message, st *store.Settlement) {
	last := l.leave(m)
	l.topic.totals.Acked++
	l.topic.totals.LastAck = now
	s.freeUnique(&m.Message)
	if l.topic.Retain > 0 {
		m.State, m.AckedAt, m.forget = store.Acked, now, now.Add(l.topic.Retain)
		s.retained = append(s.retained, m)
	} else {
		delete(s.messages, m.ID)
	}
	if last || st.Hold > 0 {
		s.end(l, now, st.Hold)
	}
	for i, e := range st.Emit {
		s.append(now, pawl.EmitID(st.ID, i), e)
	}
	for i := range st.Marks {
		s.marks.apply(now, &st.Marks[i], backend.NewVersion(&st.Marks[i]))
	}
	if len(st.Marks) > 0 {
		s.marks.tidy(now)
	}
}

// retryAtTail makes a message a delayed one; its lane and the rest of its run go on.
func (s *core) retryAtTail(now time.Time, l *lane, m *message, st *store.Settlement) {
	due := now.Add(st.After)
	m.fail(now, st, due)
	last := l.leave(m)
	s.place(l.topic, m, due, now)
	if last || st.Hold > 0 {
		s.end(l, now, st.Hold)
	}
}

// end ends a lease. The lane stays closed for after; an empty lane of one's own
// has nothing to hold back.
func (s *core) end(l *lane, now time.Time, after time.Duration) {
	if after > 0 && (l.keyed || len(l.queue) > 0) {
		s.close(l, now.Add(after))
		return
	}
	s.open(l)
}

// fail records a failed attempt.
func (m *message) fail(now time.Time, st *store.Settlement, next time.Time) {
	a := sqlstore.FailedAttempt(m.Attempts+1, &st.Failure, now, next)
	if a.Throttled = st.Throttled; a.Throttled {
		m.throttle(now)
	} else {
		m.Attempts, m.Throttles, m.ThrottledSince = a.Attempt, 0, time.Time{}
	}
	m.Reason = a.Error
	m.History = append(m.History, a)
}

// throttle counts a throttled retry, and forgets the record of an old one.
func (m *message) throttle(now time.Time) {
	if m.Throttles++; m.Throttles == 1 {
		m.ThrottledSince = now
	}
	kept := 0
	for i, a := range slices.Backward(m.History) {
		if a.Throttled {
			kept++
		}
		if kept == store.KeptThrottles {
			m.History = slices.Delete(m.History, i, i+1)
			return
		}
	}
}

// makeDead makes a message, which is in no lane any more, a dead letter.
func (s *core) makeDead(m *message, now time.Time, kind pawl.Kind, reason string) {
	m.State, m.DeadAt, m.Kind, m.Reason = store.IsDead, now, kind, reason
	m.Throttles, m.ThrottledSince = 0, time.Time{}
	m.Fingerprint = fingerprint.Of(kind, reason)
	s.freeUnique(&m.Message)
	s.storeDead(m)
}

// storeDead puts a message among the dead letters.
func (s *core) storeDead(m *message) {
	s.deaths++
	m.lane, m.death = nil, s.deaths
	s.topics[m.Topic].totals.Dead++
	if m.Key != nil {
		s.topics[m.Topic].deadKeys[string(m.Key)]++
	}
}

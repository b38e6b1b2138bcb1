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
	d := sqlstore.Decide(st, sqlstore.Delivery{Attempts: m.Attempts, Keyed: l.keyed, Tail: l.topic.Tail,
		Last: m.seq == l.lease.last}, now.Add)
	if d.Failed != nil {
		m.fail(now, d)
	}
	if d.Leaves {
		l.leave(m)
	}
	switch st.Verdict {
	case store.Ack:
		s.ack(now, l.topic, m)
	case store.Dead:
		s.makeDead(m, now, pawl.Kind(store.Text(string(st.Failure.Kind))), d.Reason)
	case store.Retry:
		if l.topic.totals.Retried++; d.Delayed {
			s.place(l.topic, m, now.Add(st.After), now)
		}
	case store.Release:
		m.Reason = d.Reason
	}
	if d.Ends {
		s.end(l, now, d.Closed)
	}
	if st.Verdict == store.Ack {
		s.follow(now, st)
	}
	return true
}

// ack forgets a message, or keeps it as long as its topic says.
func (s *core) ack(now time.Time, t *topic, m *message) {
	t.totals.Acked++
	t.totals.LastAck = now
	s.freeUnique(&m.Message)
	if t.Retain > 0 {
		m.State, m.AckedAt, m.forget = store.Acked, now, now.Add(t.Retain)
		s.retained = append(s.retained, m)
	} else {
		delete(s.messages, m.ID)
	}
}

// follow appends what an ack emits, and writes its marks.
func (s *core) follow(now time.Time, st *store.Settlement) {
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
func (m *message) fail(now time.Time, d sqlstore.Decision) {
	if d.Failed.Throttled {
		m.throttle(now)
	} else {
		m.Throttles, m.ThrottledSince = 0, time.Time{}
	}
	m.Attempts, m.Reason = d.Attempts, d.Reason
	m.History = append(m.History, *d.Failed)
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

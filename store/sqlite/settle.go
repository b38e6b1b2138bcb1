package sqlite

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

const (
	selectLease = `SELECT fence, until, hard, started, topic, last, alone, owner FROM pawl_lease WHERE lane = ?`
	topicOfRun  = `SELECT topic FROM pawl_lease WHERE lane = ? AND fence = ?`
	// Fenced by the token alone; the lease ends with the last message of the run.
	ackLease  = `DELETE FROM pawl_lease WHERE lane = ? AND fence = ? AND last = ? AND extras = 0`
	countSpan = `SELECT count(*) FROM pawl_lease WHERE lane BETWEEN ? AND ? AND fence = ? AND extras = 0`
	ackSpan   = `DELETE FROM pawl_lease WHERE lane BETWEEN ? AND ?`
	dropSpan  = `DELETE FROM pawl_msg WHERE seq BETWEEN ? AND ?`
	drop      = `DELETE FROM pawl_msg WHERE seq = ?`
)

// Settle implements [store.Store].
func (s *Store) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	invalid, err := store.AdmitSettle(batch)
	if err != nil {
		return nil, err
	}
	var refused []store.Refusal
	err = s.write(ctx, &call{op: "settle", phase: toSettle, do: func(k *work) (err error) {
		refused, err = k.settleBatch(batch, invalid)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return refused, nil
}

// settleBatch settles, unless the batch was here before.
func (k *work) settleBatch(batch store.Batch[store.Settlement], invalid []store.Refusal) ([]store.Refusal, error) {
	if outcome, known, err := k.recall(ofSettle, batch.ID); err != nil {
		return nil, err
	} else if known {
		return sqlstore.DecodeRefusals(outcome)
	}
	s := settler{work: k, items: batch.Items, topics: map[int64]*topic{}}
	s.refused = append(s.refused, invalid...) // a copy: do may run twice
	runs := sqlstore.ByRun(batch.Items, invalid)
	for len(runs) > 0 {
		n := s.span(runs)
		if err := s.settle(runs[:n]); err != nil {
			return nil, err
		}
		runs = runs[n:]
	}
	if err := s.emit(); err != nil {
		return nil, err
	}
	refused := sqlstore.SortRefusals(s.refused)
	return refused, k.remember(ofSettle, batch.ID, func() []byte { return sqlstore.EncodeRefusals(refused) })
}

// settler is one call of Settle.
type settler struct {
	*work
	items    []store.Settlement
	refused  []store.Refusal
	topics   map[int64]*topic // by fence
	emitting []int            // items that were acked and emit
}

// span is how many of the first runs are plain acks of lanes of their own that
// follow one another: what a claim of an unordered topic got, settled at once.
func (s *settler) span(runs []sqlstore.Run) int {
	n := 0
	for n < len(runs) && runs[n].Lane == runs[0].Lane+int64(n) && runs[n].Fence == runs[0].Fence &&
		runs[n].Lane > 0 && len(runs[n].Items) == 1 && s.plain(runs[n].Items[0]) {
		n++
	}
	return max(n, 1)
}

// plain tells whether an item is an ack that leaves the lane as it is.
func (s *settler) plain(i int) bool {
	return s.items[i].Verdict == store.Ack && s.items[i].Hold == 0
}

// settle settles runs, which are one span.
func (s *settler) settle(runs []sqlstore.Run) error {
	if len(runs) > 1 {
		if done, err := s.ackSpan(runs); err != nil || done {
			return err
		}
	}
	for i := range runs {
		r := &runs[i]
		if len(r.Items) == 1 && s.plain(r.Items[0]) {
			if done, err := s.ackOne(r); err != nil {
				return err
			} else if done {
				continue
			}
		}
		if err := s.run(r); err != nil {
			return err
		}
	}
	return nil
}

// ackSpan acks a span at once, if there is nothing special about any of it.
func (s *settler) ackSpan(runs []sqlstore.Run) (bool, error) {
	from, to := runs[0].Lane, runs[len(runs)-1].Lane
	for i := range runs {
		if s.items[runs[i].Items[0]].Token.Seq != runs[i].Lane {
			return false, nil
		}
	}
	t, err := s.topicOf(&runs[0])
	if err != nil || t == nil || t.Retain > 0 {
		return false, err
	}
	cols, _, err := first(s.db, countSpan, from, to, runs[0].Fence)
	if err != nil || cols[0] != int64(len(runs)) {
		return false, err
	}
	for _, query := range []string{ackSpan, dropSpan} {
		if _, err := s.db.exec(query, from, to); err != nil {
			return false, err
		}
	}
	for i := range runs {
		s.acked(t.number, runs[i].Items[0])
	}
	return true, nil
}

// topicOf returns the topic of a run; nil if its token is stale. One fence is
// one topic.
func (s *settler) topicOf(r *sqlstore.Run) (*topic, error) {
	if t := s.topics[r.Fence]; t != nil {
		return t, nil
	}
	cols, ok, err := first(s.db, topicOfRun, r.Lane, r.Fence)
	if err != nil || !ok {
		return nil, err
	}
	t := s.work.topics.byNumber[cols[0]]
	s.topics[r.Fence] = t
	return t, nil
}

// ackOne acks the last message of a run, if there is nothing special about it.
func (s *settler) ackOne(r *sqlstore.Run) (bool, error) {
	t, err := s.topicOf(r)
	if err != nil || t == nil || t.Retain > 0 {
		return false, err
	}
	seq := s.items[r.Items[0]].Token.Seq
	ended, err := s.db.exec(ackLease, r.Lane, r.Fence, seq)
	if err != nil || ended == 0 {
		return false, err
	}
	if _, err := s.db.exec(drop, seq); err != nil {
		return false, err
	}
	s.acked(t.number, r.Items[0])
	if r.Lane > 0 {
		return true, nil
	}
	return true, s.open(r.Lane, t.number)
}

// acked counts an ack and notes what it emits.
func (s *settler) acked(topic int64, i int) {
	s.of(topic).acked++
	if len(s.items[i].Emit) > 0 {
		s.emitting = append(s.emitting, i)
	}
}

// run settles one run, item by item.
func (s *settler) run(r *sqlstore.Run) error {
	l, err := s.lease(r.Lane)
	if err != nil {
		return err
	}
	for _, i := range r.Items {
		var e *entry
		if l != nil && l.fence == r.Fence {
			if e, err = s.entry(s.items[i].Token.Seq); err != nil {
				return err
			}
		}
		if e == nil || !l.covers(e) {
			s.refused = append(s.refused, store.Refusal{Index: i, Err: pawl.ErrLeaseLost})
			continue
		}
		ended, err := s.one(l, e, i)
		if err != nil {
			return err
		}
		if ended {
			l = nil // what follows is lost
		}
	}
	return nil
}

// one settles one delivery, and tells whether that ended its run.
func (s *settler) one(l *lease, e *entry, i int) (ended bool, err error) {
	it := &s.items[i]
	switch it.Verdict {
	case store.Ack:
		if err := s.ack(e); err != nil {
			return false, err
		}
		s.acked(e.topic, i)
		if e.seq != l.last && it.Hold == 0 {
			return false, nil
		}
		return true, s.end(l.lane, l.topic, micros(it.Hold), true)
	case store.Dead:
		if err := s.fail(e, &it.Failure, 0); err != nil {
			return false, err
		}
		if err := s.buryEntry(e, s.now, it.Failure.Kind, store.Text(it.Failure.Error)); err != nil {
			return false, err
		}
		return true, s.end(l.lane, l.topic, 0, true)
	case store.Retry:
		s.of(e.topic).retried++
		if err := s.fail(e, &it.Failure, s.now+micros(it.After)); err != nil {
			return false, err
		}
	default: // release
		if _, err := s.db.exec(setReason, e.seq, sqlstore.ReleasedReason(&it.Failure)); err != nil {
			return false, err
		}
	}
	return true, s.end(l.lane, l.topic, micros(it.After), false)
}

// emit appends what acked deliveries emitted, in the order of their messages.
func (s *settler) emit() error {
	if len(s.emitting) == 0 {
		return nil
	}
	// What became due before is in front.
	if err := s.sweep(); err != nil {
		return err
	}
	slices.SortFunc(s.emitting, func(a, b int) int { return cmp.Compare(s.items[a].Token.Seq, s.items[b].Token.Seq) })
	for _, i := range s.emitting {
		it := &s.items[i]
		for n := range it.Emit {
			if _, err := s.append(&it.Emit[n], pawl.EmitID(it.ID, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

package sqlite

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

const (
	selectLease = `SELECT fence, until, hard, started, topic, last, alone, owner, extras FROM pawl_lease WHERE lane = ?`
	topicOfRun  = `SELECT topic FROM pawl_lease WHERE lane = ? AND fence = ?`
	// Fenced by the token alone; the lease ends with the last message of the run.
	ackLease     = `DELETE FROM pawl_lease WHERE lane = ? AND fence = ? AND last = ? AND extras = ?`
	leasesOfSpan = `SELECT lane, last, extras FROM pawl_lease WHERE lane BETWEEN ? AND ? AND fence = ? AND extras IN (0, 2) ORDER BY lane`
	countSpan    = `SELECT count(*), max(extras) FROM pawl_lease WHERE lane BETWEEN ? AND ? AND fence = ? AND extras IN (0, 2)`
	ackSpan      = `DELETE FROM pawl_lease WHERE lane BETWEEN ? AND ?`
	dropSpan     = `DELETE FROM pawl_msg WHERE seq BETWEEN ? AND ?`
	dropTried    = `DELETE FROM pawl_tried WHERE seq BETWEEN ? AND ?`
	dropAttempts = `DELETE FROM pawl_attempt WHERE seq BETWEEN ? AND ?`
	countRun     = `SELECT count(*) FROM pawl_msg WHERE lane = ? AND lane < 0 AND seq BETWEEN ? AND ?`
	// The lanes of a span that have messages, one after the other, each with its
	// first message. The last step finds a lane beyond the span: told to look no
	// further than that, SQLite would read on to the last lane of all.
	openSpan = `WITH RECURSIVE busy (lane) AS (
			SELECT (SELECT lane FROM pawl_msg WHERE lane < 0 AND lane >= ?1 ORDER BY lane LIMIT 1)
			UNION ALL
			SELECT (SELECT m.lane FROM pawl_msg m WHERE m.lane < 0 AND m.lane > busy.lane ORDER BY m.lane LIMIT 1)
			FROM busy WHERE busy.lane < ?2)
		INSERT INTO pawl_slot (topic, suspect, rank, seq, lane)
		SELECT m.topic, ` + suspicionOf + `, m.rank, m.seq, m.lane
		FROM busy CROSS JOIN pawl_msg m
			ON m.seq = (SELECT f.seq FROM pawl_msg f WHERE f.lane = busy.lane AND f.lane < 0 ORDER BY f.seq LIMIT 1)
		WHERE busy.lane <= ?2`
	drop = `DELETE FROM pawl_msg WHERE seq = ?`
)

// Settle implements [store.Store].
func (s *core) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	invalid, err := backend.AdmitSettle(batch)
	if err != nil {
		return nil, err
	}
	if len(batch.Items) == 0 {
		return nil, s.usable(ctx, "settle")
	}
	weight, emits := len(batch.Items), false
	for i := range batch.Items {
		emits = emits || len(batch.Items[i].Emit) > 0
		weight += weigh(batch.Items[i].Emit) + weighMarks(batch.Items[i].Marks)
	}
	var refused []store.Refusal
	err = s.write(ctx, &call{op: "settle", phase: toSettle, weight: weight, afterDue: emits,
		do: func(k *work) (err error) {
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
	if err := s.mark(); err != nil {
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
	marking  []int            // items that were acked and write marks
	extras   int64            // of the lease that was acked last
}

// span is how many of the first runs are plain acks of single messages, of lanes
// that lie beside one another: what a claim got at once is often settled at once.
func (s *settler) span(runs []sqlstore.Run) int {
	n := 0
	for n < len(runs) && runs[n].Lane == runs[0].Lane+int64(n) && runs[n].Fence == runs[0].Fence &&
		len(runs[n].Items) == 1 && s.plain(runs[n].Items[0]) {
		n++
	}
	return max(n, 1)
}

// plain reports whether an item is an ack that leaves the lane as it is.
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
	t, err := s.topicOf(&runs[0])
	if err != nil || t == nil || t.Retain > 0 {
		return false, err
	}
	from, to := runs[0].Lane, runs[len(runs)-1].Lane
	held, extras, err := s.holdsSpan(runs)
	if err != nil || !held {
		return false, err
	}
	if _, err := s.db.exec(ackSpan, from, to); err != nil {
		return false, err
	}
	seqs := make([]int64, len(runs))
	for i := range runs {
		seqs[i] = s.seq(runs[i].Items[0])
		s.acked(t.number, runs[i].Items[0])
	}
	slices.Sort(seqs)
	for len(seqs) > 0 {
		n := consecutive(seqs)
		if err := s.drop(seqs[0], seqs[n-1], extras); err != nil {
			return false, err
		}
		seqs = seqs[n:]
	}
	if from > 0 {
		return true, nil
	}
	opened, err := s.db.exec(openSpan, from, to)
	if opened > 0 {
		s.claimable(t.number)
	}
	return true, err
}

// drop deletes messages that follow one another.
func (k *work) drop(from, to, extras int64) error {
	queries := []string{dropSpan, dropTried, dropAttempts}
	if extras&hasTraces == 0 {
		queries = queries[:1]
	}
	return k.execAll(queries, from, to)
}

// holdsSpan reports whether every token of a span is good, and good for the last
// message of its run; and what there is beside the messages.
func (s *settler) holdsSpan(runs []sqlstore.Run) (held bool, extras int64, err error) {
	from, to, fence := runs[0].Lane, runs[len(runs)-1].Lane, runs[0].Fence
	if from > 0 {
		for i := range runs {
			if s.seq(runs[i].Items[0]) != runs[i].Lane {
				return false, 0, nil
			}
		}
		cols, _, err := first(s.db, countSpan, from, to, fence)
		return cols[0] == int64(len(runs)), cols[1], err
	}
	n := 0
	err = s.db.query(leasesOfSpan, func(r row) error {
		if n == len(runs) || r.int(0) != runs[n].Lane || r.int(1) != s.seq(runs[n].Items[0]) {
			return errEnough
		}
		n++
		extras |= r.int(2)
		return nil
	}, from, to, fence)
	return n == len(runs), extras, err
}

// seq is the number of the message that an item is about.
func (s *settler) seq(i int) int64 { return s.items[i].Token.Seq }

// consecutive is how many of the first numbers follow one another.
func consecutive(seqs []int64) int {
	n := 1
	for n < len(seqs) && seqs[n] == seqs[0]+int64(n) {
		n++
	}
	return n
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
	seq := s.seq(r.Items[0])
	ended, err := s.db.exec(ackLease, r.Lane, r.Fence, seq, s.extras)
	if err == nil && ended == 0 {
		s.extras ^= hasTraces // those of a batch are often alike
		ended, err = s.db.exec(ackLease, r.Lane, r.Fence, seq, s.extras)
	}
	if err != nil || ended == 0 {
		return false, err
	}
	if err := s.drop(seq, seq, s.extras); err != nil {
		return false, err
	}
	s.acked(t.number, r.Items[0])
	if r.Lane > 0 {
		return true, nil
	}
	return true, s.open(r.Lane, t.number)
}

// acked counts an ack and notes what it emits and marks.
func (s *settler) acked(topic int64, i int) {
	s.of(topic).acked++
	if len(s.items[i].Emit) > 0 {
		s.emitting = append(s.emitting, i)
	}
	if len(s.items[i].Marks) > 0 {
		s.marking = append(s.marking, i)
	}
}

// run settles one run, item by item.
func (s *settler) run(r *sqlstore.Run) error {
	l, err := s.lease(r.Lane)
	if err != nil {
		return err
	}
	if l != nil && l.fence != r.Fence {
		l = nil
	}
	for items := r.Items; len(items) > 0; {
		n, ended, err := s.ackPart(l, items)
		if err == nil && n == 0 {
			n = 1
			ended, err = s.item(l, items[0])
		}
		if err != nil {
			return err
		}
		if ended {
			l = nil // what follows is lost
		}
		items = items[n:]
	}
	return nil
}

// ackPart acks the first messages of a run at once, if there is nothing special
// about them, and returns how many.
func (s *settler) ackPart(l *lease, items []int) (n int, ended bool, err error) {
	if l == nil || l.lane > 0 || l.extras&hasUnique != 0 || s.work.topics.byNumber[l.topic].Retain > 0 {
		return 0, false, nil
	}
	from := s.seq(items[0])
	for n < len(items) && s.plain(items[n]) && s.seq(items[n]) == from+int64(n) && s.seq(items[n]) <= l.last {
		n++
	}
	if n < 2 {
		return 0, false, nil
	}
	to := from + int64(n) - 1
	cols, _, err := first(s.db, countRun, l.lane, from, to)
	if err != nil || cols[0] != int64(n) {
		return 0, false, err
	}
	if err := s.drop(from, to, l.extras); err != nil {
		return 0, false, err
	}
	for _, i := range items[:n] {
		s.acked(l.topic, i)
	}
	if to < l.last {
		return n, false, nil
	}
	return n, true, s.end(l.lane, l.topic, 0, true)
}

// item settles one delivery under a lease, which is nil if the token is stale, and reports
// whether that ended the run.
func (s *settler) item(l *lease, i int) (ended bool, err error) {
	var e *entry
	if l != nil {
		if e, err = s.entry(s.seq(i)); err != nil {
			return false, err
		}
	}
	if e == nil || !l.covers(e) {
		s.refused = append(s.refused, store.Refusal{Index: i, Err: pawl.ErrLeaseLost})
		return false, nil
	}
	it := &s.items[i]
	d := sqlstore.Decide(it, sqlstore.Delivery{Attempts: int(e.attempts), Keyed: l.lane < 0, Last: e.seq == l.last,
		Tail: s.work.topics.byNumber[l.topic].Tail}, s.after)
	if d.Failed != nil {
		if err := s.failed(e.seq, d.Failed); err != nil {
			return false, err
		}
	}
	switch it.Verdict {
	case store.Ack:
		err = s.ack(e)
		s.acked(e.topic, i)
	case store.Dead:
		err = s.deadEntry(e, s.now, it.Failure.Kind, d.Reason)
	case store.Retry:
		if s.of(e.topic).retried++; d.Delayed {
			err = s.delay(e, s.now+micros(it.After))
		}
	default: // release
		_, err = s.db.exec(setReason, e.seq, d.Reason)
	}
	if err != nil || !d.Ends {
		return false, err
	}
	return true, s.end(l.lane, l.topic, micros(d.Closed), d.Leaves)
}

// delay makes a message a delayed one, which joins its lane again when it is due.
func (s *settler) delay(e *entry, due int64) error {
	if _, err := s.db.exec(leaveLane, e.seq); err != nil {
		return err
	}
	return s.close(e.seq, due, e.topic, sqlstore.KeyLane(e.topic, e.key))
}

// emit appends what acked deliveries emitted, in the order of their messages.
func (s *settler) emit() error {
	if len(s.emitting) == 0 {
		return nil
	}
	// What became due before is in front.
	if err := s.sweepAll(); err != nil {
		return err
	}
	s.active = map[int64]int64{}
	defer func() { s.active = nil }()
	slices.SortFunc(s.emitting, func(a, b int) int { return cmp.Compare(s.seq(a), s.seq(b)) })
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

// mark writes the marks of acked deliveries, in the order of their messages.
func (s *settler) mark() error {
	slices.SortFunc(s.marking, func(a, b int) int { return cmp.Compare(s.seq(a), s.seq(b)) })
	for _, i := range s.marking {
		for n := range s.items[i].Marks {
			m := &s.items[i].Marks[n]
			if err := s.putMark(m, &store.MarkReceipt{Version: backend.NewVersion(m)}); err != nil {
				return err
			}
		}
	}
	return nil
}

package kafka

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// leftoverWait is the longest that the lane of a key that moved away and came back waits for
// the rest of a run of which a message was refused as lost.
const leftoverWait = 5 * time.Second

// settle ends deliveries, in the order of their lanes. It returns those whose
// token is stale, and the messages that died.
func (e *engine) settle(items []store.Settlement, bad map[int]bool) (lost []int, deaths []*death, err error) {
	now, err := e.enter("settle")
	if err != nil {
		return nil, nil, err
	}
	defer e.mu.Unlock()
	var order []int // nil: as they come
	for n := range items {
		i := n
		if order == nil && e.early(&items[i]) {
			order = inLaneOrder(items, n)
		}
		if order != nil {
			i = order[n]
		}
		if bad[i] {
			continue
		}
		ok, d := e.settleOne(&items[i], now)
		if !ok {
			lost = append(lost, i)
		}
		if d != nil {
			deaths = append(deaths, d)
		}
	}
	e.setAlarm()
	return lost, deaths, nil
}

// early reports whether a settlement would end a run of which an earlier message is
// not settled yet. It may be one of the settlements that follow.
func (e *engine) early(st *store.Settlement) bool {
	l, f := e.held(st.Token)
	if f == nil || st.Verdict == store.Ack && f != l.lease.last && st.Hold == 0 {
		return false
	}
	l.trim()
	return l.head != f
}

// inLaneOrder returns the indexes of items so that those of one lane follow its
// order; the first n stay where they are.
func inLaneOrder(items []store.Settlement, n int) []int {
	order := make([]int, len(items))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order[n:], func(a, b int) int { return cmp.Compare(items[a].Token.Seq, items[b].Token.Seq) })
	return order
}

// settleOne ends one delivery; false if its token is stale.
func (e *engine) settleOne(st *store.Settlement, now int64) (bool, *death) {
	l, f := e.held(st.Token)
	if f == nil {
		return false, nil
	}
	if l.of.state == gone {
		e.leave(l, f, now)
		return false, nil
	}
	switch st.Verdict {
	case store.Ack:
		last := f == l.lease.last
		e.finish(f)
		if last || st.Hold > 0 {
			e.endRun(l, now, st.Hold)
		}
	case store.Dead:
		l.of.topic.failed++
		t := f.fail(st, now, 0)
		// The death comes first: a partition that is given up must not look quiet in between.
		d := e.die(f, pawl.Kind(store.Text(string(st.Failure.Kind))), t.reason)
		e.unlease(l)
		l.giveBack()
		if st.Hold > 0 {
			l.hold = now + int64(st.Hold)
		}
		if l.head != f { // one before it is not settled yet; it dies after that
			l.lift(f)
		}
		return true, d
	case store.Retry:
		l.of.topic.retried++
		l.of.topic.failed++
		f.fail(st, now, st.Closes())
		e.clearTry(f)
		e.endRun(l, now, st.Closes())
	case store.Release:
		if f.trouble != nil {
			f.trouble.reason = store.CauseReleased
		}
		e.clearTry(f)
		e.endRun(l, now, st.Closes())
	}
	return true, nil
}

// clearTry takes back the recorded try of a message that is carried out alone: it did not
// kill the process.
func (e *engine) clearTry(f *flight) {
	if f.solitary() {
		f.lane.of.tries[f.offset] = uint8(f.trouble.lonely)
	}
}

// endRun ends the lease of a lane, which stays closed for after.
func (e *engine) endRun(l *lane, now int64, after time.Duration) {
	e.unlease(l)
	l.giveBack()
	e.reopen(l, now+int64(after), now)
}

// leave records that a handler of an earlier assignment is done with a message.
func (e *engine) leave(l *lane, f *flight, now int64) {
	f.state = finished
	e.lateAcks++
	l.trim()
	if l.head == nil || l.head.state != leased || f == l.lease.last {
		e.unlease(l)
		return
	}
	if grace := now + int64(leftoverWait); grace < l.until {
		e.setUntil(l, grace)
	}
}

// lift puts a message of the lane at its head.
func (l *lane) lift(f *flight) {
	for p := l.head; p != nil; p = p.next {
		if p.next != f {
			continue
		}
		p.next = f.next
		if l.tail == f {
			l.tail = p
		}
		f.next, l.head = l.head, f
		return
	}
}

func (f *flight) fail(st *store.Settlement, now int64, after time.Duration) *trouble {
	t, end := f.troubled(), time.Unix(0, now)
	number := t.attempts + 1
	if st.Throttled {
		t.throttle(end)
	} else {
		t.attempts, t.throttles, t.throttledSince = number, 0, time.Time{}
	}
	t.reason = store.Text(st.Failure.Error)
	a := store.Attempt{
		Attempt: number, Throttled: st.Throttled, StartedAt: end.Add(-st.Failure.Ran), EndedAt: end,
		Worker: store.Text(st.Failure.Worker),
		Kind:   store.Text(string(st.Failure.Kind)), Error: t.reason, Rule: store.Text(st.Failure.Rule),
		Action: store.Text(st.Failure.Action), Inputs: store.Text(st.Failure.Inputs),
		Attrs: backend.FitAttrs(st.Failure.Attrs),
	}
	if st.Verdict == store.Retry {
		a.NextAt = end.Add(after)
	}
	t.history = append(t.history, a)
	return t
}

// throttle counts a throttled retry, and forgets the record of an old one.
func (t *trouble) throttle(now time.Time) {
	if t.throttles++; t.throttles == 1 {
		t.throttledSince = now
	}
	kept := 0
	for i, a := range slices.Backward(t.history) {
		if a.Throttled {
			kept++
		}
		if kept == store.KeptThrottles {
			t.history = slices.Delete(t.history, i, i+1)
			return
		}
	}
}

// Extend implements [store.Store].
func (s *Store) Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
	if err := backend.AdmitExtend(by, tokens); err != nil {
		return nil, err
	}
	if err := s.usable(ctx, "extend"); err != nil {
		return nil, err
	}
	return s.engine.extend(by, tokens)
}

func (e *engine) extend(by time.Duration, tokens []pawl.Token) (lost []pawl.Token, err error) {
	now, err := e.enter("extend")
	if err != nil {
		return nil, err
	}
	defer e.mu.Unlock()
	for _, tok := range tokens {
		l, f := e.held(tok)
		if f == nil || l.of.state == gone {
			lost = append(lost, tok)
			continue
		}
		e.setUntil(l, max(l.until, min(now+int64(by), l.lease.hard)))
	}
	return lost, nil
}

var errMarks = &store.Error{Op: "settle", Code: store.ErrUnsupported,
	Err: errors.New("marks: a log is not read by key"), Hint: "keep marks in a second store"}

// Settle implements [store.Store]. Emitted messages are produced first; if that fails, nothing
// else happens. An ack is committed with the next commit; a dead letter is written before its
// message counts as finished.
func (s *Store) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	refused, err := backend.AdmitSettle(batch)
	if err != nil {
		return nil, err
	}
	if err := s.usable(ctx, "settle"); err != nil {
		return nil, err
	}
	bad := map[int]bool{}
	for _, r := range refused {
		bad[r.Index] = true
	}
	for i := range batch.Items {
		if len(batch.Items[i].Marks) > 0 && !bad[i] {
			refused, bad[i] = append(refused, store.Refusal{Index: i, Err: errMarks}), true
		}
	}
	unfit, err := s.emit(ctx, batch, bad)
	if err != nil {
		return nil, err
	}
	refused = append(refused, unfit...)
	lost, deaths, err := s.engine.settle(batch.Items, bad)
	if err != nil {
		return nil, err
	}
	for _, i := range lost {
		refused = append(refused, store.Refusal{Index: i, Err: pawl.ErrLeaseLost})
	}
	slices.SortFunc(refused, func(a, b store.Refusal) int { return cmp.Compare(a.Index, b.Index) })
	s.awaitDeaths(ctx, deaths)
	return refused, nil
}

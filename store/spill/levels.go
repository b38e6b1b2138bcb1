package spill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// left is the part of a call that is not stored yet.
type leftover struct {
	*Store
	*call
	why      map[int]error // of the primary store
	diverted map[int]error // of the dead-letter route; nil: not tried
	fallback error
}

// fallbackTries is how often an append to the fallback store is sent whose outcome
// is not known. It repeats its batch id.
const fallbackTries = 3

// spill stores messages elsewhere, and sets the latches of their keys. The call is
// first in all its lanes.
func (s *Store) spill(ctx context.Context, c *call, left []int) *LostError {
	f := &leftover{Store: s, call: c, why: map[int]error{}, diverted: map[int]error{}}
	s.mu.Lock()
	latched := map[int]bool{} // before this call
	for _, i := range left {
		m := &c.batch.Items[i]
		switch c.routed(i) {
		case behind:
			f.why[i], latched[i] = errBehind, true
		case aside:
			f.why[i] = errAside
			if err := s.health(m.Topic).err; err != nil { // none if it took something meanwhile
				f.why[i] = err
			}
		default:
			f.why[i] = c.receipts[i].Err
		}
		if m.Key != nil {
			latched[i] = s.lanes[laneKey{m.Topic, string(m.Key)}].latched
		}
	}
	first := make(map[int]bool, len(left))
	for _, i := range left {
		first[i] = s.cfg.Divert != nil && !latched[i] && s.divertFirst(c, i)
	}
	s.mu.Unlock()
	// The dead-letter route is at the same broker as the primary store: if that is gone by
	// now, half of the time that the caller has left is for the fallback store.
	bound, cancel := s.bound(ctx, 0.5)
	left = f.divert(bound, left, func(i int) bool { return first[i] && bound.Err() == nil })
	cancel()
	left = f.keep(ctx, left)
	left = f.divert(ctx, left, func(i int) bool { return f.diverted[i] == nil })
	return f.lose(left)
}

// divertFirst reports whether the dead-letter route comes before the fallback store.
// Store.mu is locked.
func (s *Store) divertFirst(c *call, i int) bool {
	m := &c.batch.Items[i]
	answered := c.answered && says(c.receipts[i].Err)
	if c.routed(i) == aside {
		answered = s.health(m.Topic).answered
	}
	return answered && (s.cfg.When == DivertAll || s.cfg.When == DivertUnkeyed && m.Key == nil)
}

// outcome of a message at the primary store.
func (f *leftover) outcome(i int) store.Outcome {
	if f.routed(i) == toPrimary && f.receipts[i].Outcome() == store.Unknown {
		return store.Unknown
	}
	return store.Failed
}

// divert offers messages to the dead-letter route and returns those that it did
// not take. Those of one outcome that follow one another go together.
func (f *leftover) divert(ctx context.Context, left []int, which func(int) bool) (rest []int) {
	if f.cfg.Divert == nil {
		return left
	}
	for len(left) > 0 {
		if !which(left[0]) {
			rest, left = append(rest, left[0]), left[1:]
			continue
		}
		n := 1
		for n < len(left) && which(left[n]) && f.outcome(left[n]) == f.outcome(left[0]) {
			n++
		}
		part := left[:n]
		left = left[n:]
		msgs := make([]pawl.Message, n)
		for at, i := range part {
			msgs[at] = f.batch.Items[i]
		}
		why := f.why[part[0]]
		if err := f.divertPart(ctx, msgs, why); err != nil {
			for _, i := range part {
				f.diverted[i] = err
			}
			rest = append(rest, part...)
			continue
		}
		for topic, items := range f.byTopic(part) {
			f.tally(topic, func(t *Totals) { t.Diverted += int64(len(items)) })
			f.cfg.Observer.Diverted(topic, len(items), why)
		}
		f.accept(part)
	}
	return rest
}

// divertPart calls the dead-letter route. Where that fails it is not the first way out
// any more, until the primary store has answered again.
func (f *leftover) divertPart(ctx context.Context, msgs []pawl.Message, why error) error {
	err := f.cfg.Divert(ctx, msgs, why)
	if err != nil {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i := range msgs {
			f.health(msgs[i].Topic).answered = false
		}
	}
	return err
}

// accept turns receipts into those of messages that are stored.
func (f *leftover) accept(part []int) {
	for _, i := range part {
		f.receipts[i] = store.Receipt{ID: f.receipts[i].ID}
	}
}

func (f *leftover) byTopic(part []int) map[string][]int {
	by := map[string][]int{}
	for _, i := range part {
		topic := f.batch.Items[i].Topic
		by[topic] = append(by[topic], i)
	}
	return by
}

// keep stores messages in the fallback store and returns those that it did not
// take.
func (f *leftover) keep(ctx context.Context, left []int) (rest []int) {
	now := time.Now()
	var rows []pawl.Message
	var at []int
	for _, i := range left {
		m := f.batch.Items[i]
		if err := f.supports(&m); err != nil {
			f.receipts[i].Err = err
			continue
		}
		row, err := toRow(f.cfg.Prefix, m, f.outcome(i), now, f.why[i])
		if err != nil {
			f.fallback = err
			rest = append(rest, i)
			continue
		}
		f.rowTopic(m.Topic)
		rows, at = append(rows, row), append(at, i)
	}
	if len(rows) == 0 {
		return rest
	}
	batch := store.Batch[pawl.Message]{ID: partID(f.batch.ID, "fallback", rows), Items: rows}
	if batch.ID == "" {
		batch.ID = pawl.NewID()
	}
	answers := f.store(ctx, batch)
	var kept []int
	for n, r := range answers {
		if r.DuplicateOf != "" {
			r.Err = f.ownRow(ctx, &rows[n], r.DuplicateOf)
		}
		switch r.Outcome() {
		case store.Stored, store.Duplicate:
			kept = append(kept, at[n])
			// What was there already need not be the last of its lane.
			f.latch(at[n], r.DuplicateOf != "")
			f.receipts[at[n]] = store.Receipt{ID: r.ID, DuplicateOf: r.DuplicateOf}
		case store.Unknown:
			f.latch(at[n], true)
			fallthrough
		default:
			f.fallback = r.Err
			rest = append(rest, at[n])
		}
	}
	f.noteKept(kept)
	if len(kept) > 0 {
		if !f.share.announce(ctx) {
			f.blind.Add(1)
		}
		f.wakeIfUp(kept)
	}
	return rest
}

// ownRow reports whether a duplicate in the fallback store is the row of the same
// message. It may be another program's message with the same id: a program that moves
// messages out of that database would remove its own when this one is reported as
// stored.
func (f *leftover) ownRow(ctx context.Context, row *pawl.Message, id string) error {
	there, err := f.inspector.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound): // no more: repeated, it is stored
		return &store.Error{Op: "append", Code: store.ErrUnavailable, Err: err}
	case err != nil:
		return &store.Error{Op: "append", Code: store.ErrUnknown, Err: err}
	case there.Topic != row.Topic:
		return &store.Error{Op: "append", Code: store.ErrUnavailable,
			Err: fmt.Errorf("its id is that of a message of topic %q there", there.Topic)}
	}
	return nil
}

// store appends rows, again while the outcome is not known.
func (f *leftover) store(ctx context.Context, batch store.Batch[pawl.Message]) []store.Receipt {
	for try := 1; ; try++ {
		receipts, err := f.Store.fallback.Append(ctx, batch)
		if err == nil || try == fallbackTries || ctx.Err() != nil || !errors.Is(err, store.ErrUnavailable) {
			return store.Answers(len(batch.Items), receipts, err)
		}
	}
}

// supports reports what the primary store would refuse when it is back.
func (f *leftover) supports(m *pawl.Message) error {
	switch {
	case m.Unique.Key != "" && !f.can.Has(store.CanUnique):
		return &store.Error{Op: "append", Code: store.ErrUnsupported,
			Err: errors.New("the primary store has no unique keys")}
	case m.Delay > 0 && !f.can.Has(store.CanDelay):
		return &store.Error{Op: "append", Code: store.ErrUnsupported, Err: errors.New("the primary store has no delay")}
	}
	return nil
}

// latch latches the key of a message that is a row now, or may be one.
func (f *leftover) latch(i int, unsure bool) {
	m := &f.batch.Items[i]
	if m.Key == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.Store.lanes[laneKey{m.Topic, string(m.Key)}]
	f.setLatch(l, true)
	if unsure {
		l.unsure = true
		f.dirty[l.laneKey] = true
		return
	}
	l.last = m.ID
}

// noteKept counts what the fallback store took.
func (f *leftover) noteKept(kept []int) {
	names := map[route]string{behind: "behind", aside: "aside"}
	type group struct{ topic, outcome string }
	n, why := map[group]int{}, map[group]error{}
	for _, i := range kept {
		g := group{f.batch.Items[i].Topic, names[f.routed(i)]}
		if g.outcome == "" {
			g.outcome = string(store.Failed)
			if errors.Is(f.why[i], store.ErrUnknown) {
				g.outcome = string(store.Unknown)
			}
		}
		n[g]++
		if why[g] == nil && g.outcome != "behind" {
			why[g] = f.why[i]
		}
	}
	for g, messages := range n {
		f.tally(g.topic, func(t *Totals) {
			if g.outcome == string(store.Unknown) {
				t.SpilledUnknown += int64(messages)
			} else {
				t.SpilledFailed += int64(messages)
			}
		})
		f.cfg.Observer.Spilled(g.topic, g.outcome, messages, why[g])
	}
}

// wakeIfUp lets the compensator begin at once where the primary store takes others.
func (f *leftover) wakeIfUp(kept []int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range kept {
		if !f.health(f.batch.Items[i].Topic).resting {
			f.wakeUp()
			return
		}
	}
}

// lose reports to the caller what no level accepted.
func (f *leftover) lose(left []int) *LostError {
	if len(left) == 0 {
		return nil
	}
	lost := &LostError{Messages: len(left), Of: len(f.batch.Items), Primary: f.why[left[0]],
		Diverted: f.diverted[left[0]], Fallback: f.fallback}
	unknown := errors.Is(lost.Fallback, store.ErrUnknown)
	for _, i := range left {
		code := store.ErrUnavailable
		if unknown || f.outcome(i) == store.Unknown || f.diverted[i] != nil {
			code = store.ErrUnknown
		}
		f.receipts[i] = store.Receipt{ID: f.receipts[i].ID, Err: &store.Error{Op: "append", Code: code, Err: lost}}
	}
	for topic, items := range f.byTopic(left) {
		f.tally(topic, func(t *Totals) { t.Lost += int64(len(items)) })
		f.cfg.Observer.Lost(topic, len(items), lost)
	}
	return lost
}

package spill

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// leftover is the part of a call that is not stored yet.
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

// spill stores messages elsewhere. The call is the first of all its keys.
func (s *Store) spill(ctx context.Context, c *call, left []int) *LostError {
	f := &leftover{Store: s, call: c, why: map[int]error{}, diverted: map[int]error{}}
	first := make(map[int]bool, len(left))
	s.mu.Lock()
	for _, i := range left {
		t := s.topic(c.batch.Items[i].Topic)
		switch c.routed(i) {
		case behind:
			f.why[i] = errBehind
		case aside:
			// It has no error if something was taken meanwhile.
			f.why[i], first[i] = cmp.Or(t.err, errAside), t.answered
		default:
			f.why[i], first[i] = c.receipts[i].Err, c.answered && says(c.receipts[i].Err)
		}
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
		f.count(part, func(_ int, t *Totals) { t.Diverted++ })
		for _, i := range part {
			f.receipts[i] = store.Receipt{ID: f.receipts[i].ID}
		}
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
			f.topic(msgs[i].Topic).answered = false
		}
	}
	return err
}

// count changes the totals of the messages' topics.
func (f *leftover) count(part []int, change func(i int, t *Totals)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, i := range part {
		change(i, &f.topic(f.batch.Items[i].Topic).Totals)
	}
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
		row, err := toRow(m, f.outcome(i), now, f.why[i])
		if err != nil {
			f.fallback = err
			rest = append(rest, i)
			continue
		}
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
	unsure := map[int]bool{}
	for n, r := range answers {
		if r.DuplicateOf != "" {
			r.Err = f.ownRow(ctx, &rows[n], r.DuplicateOf)
		}
		i, o := at[n], r.Outcome()
		switch o {
		case store.Stored, store.Duplicate:
			kept, unsure[i] = append(kept, i), f.outcome(i) == store.Unknown
			f.receipts[i] = store.Receipt{ID: r.ID, DuplicateOf: r.DuplicateOf}
		default:
			f.fallback = r.Err
			rest = append(rest, i)
		}
		if o != store.Failed && o != store.Refused {
			f.latch(&rows[n], f.batch.Items[i].Topic)
		}
	}
	f.count(kept, func(i int, t *Totals) {
		if unsure[i] {
			t.SpilledUnknown++
		} else {
			t.SpilledFailed++
		}
	})
	return rest
}

// latch notes that the topic and key of a message have a row now, or may have one, and
// lets the compensator begin at once where the primary store takes others.
func (f *leftover) latch(row *pawl.Message, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.topic(name)
	f.hasRows(t)
	if row.Key != nil {
		t.latched[string(row.Key)] = row.ID
		f.kept = true
	}
	if !t.resting {
		f.wakeUp()
	}
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
	f.count(left, func(_ int, t *Totals) { t.Lost++ })
	return lost
}

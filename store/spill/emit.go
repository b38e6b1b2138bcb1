package spill

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Settle implements [store.Store]: it is that of the primary store. A primary store
// that lets emitted messages appear before the ack is helped to keep their order:
// while keys are latched, what is emitted to one of them goes behind its rows first,
// together with what else that delivery emits, and then the ack follows. If one of
// these messages is refused, so is its settlement, and the others take effect. Of a
// primary store that emits atomically nothing is changed: what is emitted passes
// the rows of its key, because only one of both can be kept.
func (s *Store) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	if s.latched.Load() == 0 && !s.share.others.Load() || s.can.Has(store.CanEmitAtomic) {
		return s.primary.Settle(ctx, batch)
	}
	var refused []store.Refusal
	items, at := make([]store.Settlement, 0, len(batch.Items)), make([]int, 0, len(batch.Items))
	for i := range batch.Items {
		st := batch.Items[i]
		if st.Validate() == nil && s.emitsBehind(st.Emit) {
			unfit, err := s.emit(ctx, batch.ID, &st)
			if err != nil {
				return nil, err
			}
			if unfit != nil {
				refused = append(refused, store.Refusal{Index: i, Err: unfit})
				continue
			}
			st.Emit = nil
		}
		items, at = append(items, st), append(at, i)
	}
	if len(items) == 0 && len(refused) > 0 {
		return refused, nil
	}
	batch.Items = items
	if len(refused) > 0 { // another batch: a repetition may leave out others
		batch.ID = partID(batch.ID, fmt.Sprint("settle", at), nil)
	}
	more, err := s.primary.Settle(ctx, batch)
	if err != nil {
		return nil, err
	}
	for _, r := range more {
		refused = append(refused, store.Refusal{Index: at[r.Index], Err: r.Err})
	}
	slices.SortFunc(refused, func(a, b store.Refusal) int { return cmp.Compare(a.Index, b.Index) })
	return refused, nil
}

// emit appends what a settlement emits. unfit says that one of the messages will not
// be taken however often that is repeated; the error, that one was not taken now. In
// both cases the delivery must not be acked: its messages would be lost.
func (s *Store) emit(ctx context.Context, batchID string, st *store.Settlement) (unfit, err error) {
	msgs := make([]pawl.Message, len(st.Emit))
	for n, m := range st.Emit {
		m.ID = pawl.EmitID(st.ID, n)
		msgs[n] = m
	}
	receipts, err := s.Append(store.Accepted(ctx), store.Batch[pawl.Message]{ID: partID(batchID, "emit", msgs),
		Items: msgs})
	if err != nil {
		return nil, err
	}
	for i := range receipts {
		switch why := receipts[i].Err; {
		case why == nil:
		case store.ForGood(why):
			unfit = &pawl.InvalidError{Field: "emit", Why: why.Error()}
		default: // the call was refused, as of one who lost a right
			return nil, &store.Error{Op: "settle", Err: why}
		}
	}
	return unfit, nil
}

// emitsBehind reports whether one of the messages has to go behind rows, as far as
// this process knows.
func (s *Store) emitsBehind(msgs []pawl.Message) bool {
	if len(msgs) == 0 {
		return false
	}
	if s.share.others.Load() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(msgs, func(m pawl.Message) bool {
		l := s.lanes[laneKey{m.Topic, string(m.Key)}]
		return m.Key != nil && l != nil && l.latched
	})
}

package spill

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// Settle implements [store.Store]: it is that of the primary store. A primary store
// that lets emitted messages appear before the ack is helped to keep their order:
// while a topic has rows, what is emitted to one of its keys is appended first, behind the
// rows, together with what else that delivery emits, and then the ack follows. If one of
// these messages is refused, so is its settlement, and the others take effect. Of a
// primary store that emits atomically nothing is changed: what is emitted passes
// the rows of its key, because only one of both can be kept.
func (s *Store) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	if s.can.Has(store.CanEmitAtomic) {
		return s.primary.Settle(ctx, batch)
	}
	var refused []store.Refusal
	waits := false // for other processes to know
	items, at := make([]store.Settlement, 0, len(batch.Items)), make([]int, 0, len(batch.Items))
	for i := range batch.Items {
		st := batch.Items[i]
		if st.Validate() == nil && s.emitsBehind(ctx, st.Emit) {
			unfit, kept, err := s.emit(ctx, batch.ID, &st)
			if err != nil {
				return nil, err
			}
			waits = waits || kept
			if unfit != nil {
				refused = append(refused, store.Refusal{Index: i, Err: unfit})
				continue
			}
			st.Emit = nil
		}
		items, at = append(items, st), append(at, i)
	}
	if waits {
		s.letOthersKnow()
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
func (s *Store) emit(ctx context.Context, batchID string, st *store.Settlement) (unfit error, kept bool, err error) {
	msgs := make([]pawl.Message, len(st.Emit))
	for n, m := range st.Emit {
		m.ID = pawl.EmitID(st.ID, n)
		msgs[n] = m
	}
	receipts, kept, err := s.append(backend.Accepted(ctx), store.Batch[pawl.Message]{ID: partID(batchID, "emit", msgs),
		Items: msgs})
	if err != nil {
		return nil, kept, err
	}
	for i := range receipts {
		switch why := receipts[i].Err; {
		case why == nil:
		case store.ForGood(why):
			unfit = &pawl.InvalidError{Field: "emit", Why: why.Error()}
		default: // the call was refused, as of one who lost a right
			return nil, kept, &store.Error{Op: "settle", Err: why}
		}
	}
	return unfit, kept, nil
}

// emitsBehind reports whether one of the messages may have to go behind rows.
func (s *Store) emitsBehind(ctx context.Context, msgs []pawl.Message) bool {
	return slices.ContainsFunc(msgs, func(m pawl.Message) bool {
		if m.Key == nil {
			return false
		}
		t := s.look(ctx, m.Topic)
		s.mu.Lock()
		defer s.mu.Unlock()
		return t.waiting
	})
}

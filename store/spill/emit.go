package spill

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Settle implements [store.Store]: it is that of the primary store. A primary store
// that lets emitted messages appear before the ack is helped to keep their order:
// while keys are latched, what is emitted to one of them goes behind its rows first,
// together with what else that delivery emits, and then the ack follows. Of a
// primary store that emits atomically nothing is changed: what is emitted passes
// the rows of its key, because only one of both can be kept.
func (s *Store) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	if s.latched.Load() == 0 && !s.share.others.Load() || s.can.Has(store.CanEmitAtomic) {
		return s.primary.Settle(ctx, batch)
	}
	cloned := false
	for i := range batch.Items {
		st := &batch.Items[i]
		if st.Validate() != nil || !s.emitsBehind(st.Emit) {
			continue
		}
		msgs := make([]pawl.Message, len(st.Emit))
		for n, m := range st.Emit {
			m.ID = pawl.EmitID(st.ID, n)
			msgs[n] = m
		}
		if _, err := s.Append(ctx, store.Batch[pawl.Message]{ID: partID(batch.ID, "emit", msgs), Items: msgs}); err != nil {
			return nil, err
		}
		if !cloned {
			batch.Items, cloned = slices.Clone(batch.Items), true
		}
		batch.Items[i].Emit = nil
	}
	return s.primary.Settle(ctx, batch)
}

// emitsBehind tells whether one of the messages has to go behind rows, as far as
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

package relay

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Settle implements [store.Store]. What is emitted is appended first; an item that
// emits what the log refuses is refused, and the others are settled.
func (s *Store) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	if !slices.ContainsFunc(batch.Items, func(st store.Settlement) bool { return len(st.Emit) > 0 }) {
		return s.log.Settle(ctx, batch)
	}
	invalid, err := store.AdmitSettle(batch)
	if err != nil {
		return nil, err
	}
	bad := map[int]bool{}
	for _, r := range invalid {
		bad[r.Index] = true
	}
	unfit, err := s.emit(ctx, batch.Items, bad)
	if err != nil {
		return nil, err
	}
	items := slices.Clone(batch.Items) // the caller's stay as they are
	for i := range items {
		switch {
		case unfit[i] != nil:
			items[i] = store.Settlement{} // which the log refuses, in its place
		case !bad[i]:
			items[i].Emit = nil
		}
	}
	refused, err := s.log.Settle(ctx, store.Batch[store.Settlement]{ID: batch.ID, Items: items})
	for n := range refused {
		if why := unfit[refused[n].Index]; why != nil {
			refused[n].Err = &pawl.InvalidError{Field: "emit", Why: why.Error()}
		}
	}
	return refused, err
}

// emit appends what items emit that are not bad. What is there already is skipped. It
// returns why the log refuses what an item emits. Of what it surely would refuse it is
// not even asked, so that nothing else of that item is appended; and it is not an error
// of the call, whose repetition would append again what the others emit.
func (s *Store) emit(ctx context.Context, items []store.Settlement, bad map[int]bool) (map[int]error, error) {
	unfit := map[int]error{}
	var msgs []pawl.Message
	var of []int
	for i := range items {
		st := &items[i]
		if bad[i] {
			continue
		}
		emitted := len(msgs)
		for j, m := range st.Emit {
			m.ID = pawl.EmitID(st.ID, j)
			if unfit[i] = store.Fit(s, &m); unfit[i] != nil {
				msgs, of = msgs[:emitted], of[:emitted]
				break
			}
			msgs, of = append(msgs, m), append(of, i)
		}
	}
	if len(msgs) == 0 {
		return unfit, nil
	}
	receipts, err := s.Append(store.Accepted(ctx), store.NewBatch(msgs...))
	if err != nil {
		return nil, err
	}
	for j, r := range receipts {
		switch r.Outcome() {
		case store.Refused:
			unfit[of[j]] = cmp.Or(unfit[of[j]], r.Err)
		case store.Failed, store.Unknown:
			return nil, r.Err
		}
	}
	return unfit, nil
}

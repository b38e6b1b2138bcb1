package mirror

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// Settle implements [store.Store]. What a delivery emits is copied as an append is. What
// it emits into a topic whose appends go to the other store is appended there before
// the ack.
func (s *Store) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	emits := slices.ContainsFunc(batch.Items, func(st store.Settlement) bool { return len(st.Emit) > 0 })
	if !emits && s.foreign.none() {
		return s.primary.Settle(ctx, batch)
	}
	if _, err := backend.AdmitSettle(batch); err != nil {
		return nil, err
	}
	here, there := part{of: s.primary}, part{of: s.mirrored, foreign: true}
	var refused []store.Refusal
	for i := range batch.Items {
		st := batch.Items[i]
		p := &here
		if s.foreign.has(st.Token) {
			p = &there
			if err := s.markFirst(ctx, &st); err != nil {
				return nil, err
			}
		}
		if len(st.Emit) > 0 && st.Validate() == nil {
			why, err := s.emitFirst(ctx, &st, p.foreign)
			if err != nil {
				return nil, err
			}
			if why != nil {
				refused = append(refused, store.Refusal{Index: i, Err: why})
				continue
			}
		}
		p.items, p.at = append(p.items, st), append(p.at, i)
	}
	for _, p := range []*part{&here, &there} {
		some, err := s.settlePart(ctx, p, batch.ID)
		if err != nil {
			return nil, err
		}
		refused = append(refused, some...)
	}
	slices.SortFunc(refused, func(a, b store.Refusal) int { return a.Index - b.Index })
	return refused, nil
}

// markFirst writes the marks of a delivery of the other store before its ack: marks are in the primary store. A store
// without marks says so itself.
func (s *Store) markFirst(ctx context.Context, st *store.Settlement) error {
	marks, ok := store.As[store.Shared](s.primary, store.CanMarks)
	if len(st.Marks) == 0 || !ok || st.Validate() != nil {
		return nil
	}
	_, err := marks.PutMarks(ctx, st.Marks...)
	st.Marks = nil
	return err
}

// part is the settlements of a batch that are for one store.
type part struct {
	of      store.Store
	foreign bool
	items   []store.Settlement
	at      []int
}

// settlePart settles in one store, and copies what was emitted there.
func (s *Store) settlePart(ctx context.Context, p *part, id string) ([]store.Refusal, error) {
	if len(p.items) == 0 {
		return nil, nil
	}
	refused, err := p.of.Settle(ctx, store.Batch[store.Settlement]{ID: id, Items: p.items})
	if err != nil {
		return nil, err
	}
	refused = slices.Clone(refused) // the store may remember its own
	failed := map[int]bool{}
	for k := range refused {
		failed[refused[k].Index] = true
		refused[k].Index = p.at[refused[k].Index]
	}
	for i := range p.items {
		if p.foreign {
			s.foreign.remove(p.items[i].Token)
		}
	}
	if p.foreign {
		return refused, nil
	}
	for i := range p.items {
		st := &p.items[i]
		for j := range st.Emit {
			if s.stages.route(st.Emit[j].Topic).stage == Dual && !failed[i] {
				s.copies.add(copyOf(st.Emit[j], pawl.EmitID(st.ID, j)))
			}
		}
	}
	return refused, nil
}

// emitFirst appends what a settlement emits, if some of it is for the other store than
// the one that settles; then all of it is, so that ids stay what they are. why says which
// of it no store takes.
func (s *Store) emitFirst(ctx context.Context, st *store.Settlement, foreign bool) (why, err error) {
	routes, _, err := s.routes(ctx, st.Emit)
	if err != nil {
		return nil, err
	}
	elsewhere := func(m pawl.Message) bool { return routes[m.Topic].away() != foreign }
	emits := slices.Clone(st.Emit)
	if !slices.ContainsFunc(emits, elsewhere) {
		return nil, nil
	}
	for i := range emits {
		emits[i].ID = pawl.EmitID(st.ID, i)
	}
	receipts, err := s.Append(backend.Accepted(ctx), store.Batch[pawl.Message]{Items: emits})
	if err != nil {
		return nil, err
	}
	for _, r := range receipts {
		if r.Err != nil {
			return &pawl.InvalidError{Field: "emit", Why: r.Err.Error()}, nil
		}
	}
	st.Emit = nil
	return nil, nil
}

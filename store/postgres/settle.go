package postgres

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// settler ends and extends leases.
type settler struct {
	*core
	appender *appender
	side     *side
	listener *listener
	upkeep   *upkeep
	registry *registry
}

// settling is a call of Settle, divided by how things are settled. The parts are
// a transaction each: a delivery is settled as a whole, a batch need not be.
type settling struct {
	items []store.Settlement
	batch []byte

	solo, keyed acks
	rest        []sqlstore.Run
	refused     []store.Refusal
}

// plain reports whether a settlement is an ack and nothing else.
func plain(st *store.Settlement) bool {
	return st.Verdict == store.Ack && st.Hold == 0 && len(st.Emit) == 0 && len(st.Marks) == 0
}

// divide sorts the items. A second item with the same token in one batch is refused.
func (g *settling) divide() {
	seen := int64(0) // the lane that went to solo last
	for _, r := range sqlstore.ByRun(g.items, g.refused) {
		allPlain := true
		for n, i := range r.Items {
			allPlain = allPlain && plain(&g.items[i])
			if n > 0 && g.items[i].Token.Seq == g.items[r.Items[n-1]].Token.Seq {
				allPlain = false // the same delivery twice
			}
		}
		switch {
		case r.Lane > 0 && len(r.Items) == 1 && allPlain && r.Lane != seen:
			seen = r.Lane
			g.solo.add(g.items[r.Items[0]].Token, r.Items[0])
		case r.Lane < 0 && allPlain:
			for _, i := range r.Items {
				g.keyed.add(g.items[i].Token, i)
			}
		default:
			g.rest = append(g.rest, r)
		}
	}
}

// Settle implements [store.Store].
func (s *settler) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	refused, err := backend.AdmitSettle(batch)
	if err != nil {
		return nil, err
	}
	ctx, done, err := s.enter(ctx, "settle")
	if err != nil {
		return nil, err
	}
	defer done()
	g := &settling{items: batch.Items, batch: batchID(batch.ID), refused: refused}
	g.divide()
	if err := s.settleAcks(ctx, g); err != nil {
		return nil, s.fail("settle", err)
	}
	if len(g.rest) > 0 {
		if err := s.settleRest(ctx, g); err != nil {
			return nil, s.fail("settle", err)
		}
	}
	return sqlstore.SortRefusals(g.refused), nil
}

// settleAcks settles plain acks, and removes claims that are finished.
func (s *settler) settleAcks(ctx context.Context, g *settling) error {
	var parts []*part
	if len(g.solo.items) > 0 {
		parts = append(parts, s.soloPart(&g.solo, g.batch))
	}
	if len(g.keyed.items) > 0 {
		parts = append(parts, s.keyedPart(&g.keyed, g.batch))
	}
	if len(parts) == 0 {
		return nil
	}
	drop := s.upkeep.tracker.takeDone(500)
	if len(drop) > 0 {
		parts[0].steps = append(parts[0].steps, do(dropClaims, int8Array(drop)))
	}
	if err := s.runParts(ctx, g.batch, parts); err != nil {
		s.upkeep.tracker.putBack(drop)
		return err
	}
	for _, p := range parts {
		g.refused = refuse(g.refused, p.lost)
		if !p.before { // else what was ended then was noted then, or by another process
			s.noteAcks(p.acks, p.lost)
		}
	}
	return nil
}

// errBusyKey is why an item was refused that might be settled later.
var errBusyKey = errors.New("a transaction that is not over holds a unique key or an id that it emits")

func busyKey() error {
	return &store.Error{
		Op: "settle", Code: store.ErrUnavailable, Err: errBusyKey,
		Hint: "settle it again, in a batch of another id; and end the transaction that appends in the meantime",
	}
}

// settleRest settles all other items than plain acks: in two round trips, the first of which
// locks and reads. Where a unique key is held by a transaction that stays open, runs are
// settled one by one, and those that need it are refused.
func (s *settler) settleRest(ctx context.Context, g *settling) error {
	if err := s.ensureEmits(ctx, g); err != nil {
		return err
	}
	careful, checkDue := false, true
	for n := 1; ; n++ {
		w := &deciding{settler: s, settling: g, careful: careful, checkDue: checkDue}
		err := s.within(ctx, s.back, nil, func(t *tx) error { return w.settle(ctx, t) })
		switch {
		case err == nil:
			w.finish()
			return nil
		case isRepeated(err):
			return s.firstRefusals(ctx, g)
		case errors.Is(err, errDue):
			checkDue = false
			if err := s.upkeep.promote(ctx); err != nil {
				return err
			}
		case n <= 4 && (stateOf(err) == stateLockTimeout || errors.Is(err, errOneByOne)):
			careful = true
		case cameBetween(err) && n < insertTries && ctx.Err() == nil:
		default:
			return err
		}
	}
}

// ensureEmits records the topics of emitted messages.
func (s *settler) ensureEmits(ctx context.Context, g *settling) error {
	places := map[place]bool{}
	for _, r := range g.rest {
		for _, i := range r.Items {
			for j := range g.items[i].Emit {
				m := &g.items[i].Emit[j]
				places[place{m.Topic, m.Priority}] = true
			}
		}
	}
	if len(places) == 0 {
		return nil
	}
	return s.registry.ensure(ctx, places)
}

// firstRefusals is the first outcome of the rest of a batch.
func (s *settler) firstRefusals(ctx context.Context, g *settling) error {
	return s.call(ctx, s.back, readOutcome(g.batch, partRest, func(r row) error {
		first, err := sqlstore.DecodeRefusals(r[0])
		g.refused = append(g.refused, first...)
		return err
	}))
}

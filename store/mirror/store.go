package mirror

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// Store is two stores between which traffic moves. It is safe for concurrent use. Make
// one with [New].
type Store struct {
	cfg      Config
	primary  store.Store
	mirrored store.Store
	below    store.Store // what Unwrap returns: layers, then primary
	stages   *stages
	copies   *copier
	foreign  leases                // those of the mirrored store
	said     map[string]TopicStats // figures that are in the state; whoever calls sayNow
	absent   absence               // of the mirrored store
	turn     atomic.Uint64
	visited  sync.Map // topics that were claimed from in the mirrored store

	life context.Context // ends with Close
	stop context.CancelFunc
	wg   sync.WaitGroup
	once sync.Once

	gate  sync.Mutex // held for a moment by who adds to wg, or ends that
	ended bool       // wg is waited for: nothing is added to it any more
}

// New puts a mirror over two stores. The optional interfaces of the result are those of
// the primary: settings, figures and dead letters of a topic that has moved are asked of
// the mirrored store itself. It reads the stages when they are first needed.
func New(primary, mirrored store.Store, c Config) (*Store, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: c, primary: primary, mirrored: mirrored, stages: newStages(primary, c.All),
		said: map[string]TopicStats{}}
	s.copies = newCopier(mirrored, c, s.stages)
	s.below = backend.OverTx(primary, s.appendTx, append([]Tx{TxOf[*sql.Tx]()}, c.Tx...)...)
	if w := newWaker(s, s.below); w != nil {
		s.below = w
	}
	s.life, s.stop = context.WithCancel(context.Background())
	if s.stages.plans != nil {
		s.background(func() { s.say(s.life) })
	}
	return s, nil
}

// background runs do until it returns; Close waits for it. It does nothing after Close
// has begun, and says so.
func (s *Store) background(do func()) bool {
	s.gate.Lock()
	defer s.gate.Unlock()
	if !s.ended {
		s.wg.Go(do)
	}
	return !s.ended
}

// layer is one optional interface over the mirror.
type layer struct {
	*Store
	below store.Store
}

// Unwrap returns the layer below, and at last the primary.
func (l layer) Unwrap() store.Store { return l.below }

// Unwrap returns what is below: the optional interfaces that know both stores, and then
// the primary.
func (s *Store) Unwrap() store.Store { return s.below }

// Close implements [store.Store]: it writes the copies that wait, for
// [Config.CloseWait] at most, and closes both stores. Its error also says how many
// messages have no copy because the time was up.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		s.gate.Lock()
		s.ended = true
		s.gate.Unlock()
		s.copies.close()
		s.stop()
		s.wg.Wait()
		if s.stages.plans != nil {
			s.sayNow(context.Background())
		}
		closed := errors.Join(s.primary.Close(), s.mirrored.Close())
		err = errors.Join(s.copies.missing(), closed) // what the primary accepted until the end counts, too
	})
	return err
}

// Flush waits until every copy that waits now is written, or was given up.
func (s *Store) Flush(ctx context.Context) error { return s.copies.flush(ctx) }

// Describe implements [store.Describer]: it is the description of the primary. Where a
// message goes may change until it is appended: what either store takes is not refused.
func (s *Store) Describe() store.Description {
	d := store.Describe(s.primary)
	d.Refuses = func(m *pawl.Message) error {
		err := store.Fit(s.primary, m)
		if err == nil || store.Fit(s.mirrored, m) == nil {
			return nil
		}
		return err
	}
	return d
}

// Append implements [store.Store]. While a topic is closed, it waits. A batch for both
// stores is a call to each; when one fails, the receipts tell what became of each message,
// and the same batch id repeats the call.
func (s *Store) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	routes, away, err := s.routes(ctx, batch.Items)
	if err != nil {
		return nil, err
	}
	if !away {
		return s.appendPrimary(ctx, batch, routes)
	}
	here, there := store.Batch[pawl.Message]{ID: batch.ID}, store.Batch[pawl.Message]{ID: batch.ID}
	var hereAt, thereAt []int
	for i, m := range batch.Items {
		if !routes[m.Topic].away() {
			here.Items, hereAt = append(here.Items, m), append(hereAt, i)
			continue
		}
		there.Items, thereAt = append(there.Items, m), append(thereAt, i)
	}
	receipts := make([]store.Receipt, len(batch.Items))
	for i := range batch.Items {
		receipts[i].ID = batch.Items[i].ID
	}
	if len(here.Items) > 0 {
		some, err := s.appendPrimary(ctx, here, routes)
		answer(receipts, hereAt, some, err)
		if err != nil {
			// Its error is not theirs: of them it is certain that they are not stored.
			for _, i := range thereAt {
				receipts[i].Err = &store.Error{Op: "append", Code: store.ErrUnavailable,
					Err: errors.New("not tried, because the primary failed: " + err.Error())}
			}
			return receipts, err
		}
	}
	some, err := s.mirrored.Append(ctx, there)
	answer(receipts, thereAt, some, err)
	return receipts, err
}

// answer notes what an Append of some messages of a batch came to. An error without
// receipts speaks of those alone.
func answer(receipts []store.Receipt, at []int, some []store.Receipt, err error) {
	for j, r := range store.Answers(len(at), some, err) {
		if r.ID == "" {
			r.ID = receipts[at[j]].ID
		}
		receipts[at[j]] = r
	}
}

// routes looks up the topics of messages, and waits for those that are closed.
func (s *Store) routes(ctx context.Context, items []pawl.Message) (routes map[string]route, away bool, err error) {
	routes = make(map[string]route, 1)
	last := ""
	for i := range items {
		topic := items[i].Topic
		if topic == last && i > 0 {
			continue
		}
		last = topic
		if _, ok := routes[topic]; ok {
			continue
		}
		r, err := s.stages.open(ctx, topic)
		if err != nil {
			return nil, false, err
		}
		routes[topic], away = r, away || r.away()
	}
	return routes, away, nil
}

// appendPrimary appends to topics that the primary is in charge of, and copies what it
// stored.
func (s *Store) appendPrimary(ctx context.Context, batch store.Batch[pawl.Message],
	routes map[string]route) ([]store.Receipt, error) {
	receipts, err := s.primary.Append(ctx, batch)
	if err != nil {
		for i := range batch.Items {
			if topic := batch.Items[i].Topic; routes[topic].stage == Dual {
				s.copies.note(topic, func(t *TopicStats) { t.Unknown++ })
			}
		}
		return receipts, err
	}
	for i, r := range receipts {
		if routes[batch.Items[i].Topic].stage == Dual && r.Err == nil && r.DuplicateOf == "" {
			s.copies.add(copyOf(batch.Items[i], r.ID))
		}
	}
	return receipts, nil
}

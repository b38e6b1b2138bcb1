package spill

import (
	"context"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/observe/figures"
	"github.com/pawl-dev/pawl/store"
)

// The result of [Store.Stats] is declared in package figures, because package observe
// exports it and must not import this one.
type (
	Stats      = figures.Spill
	TopicStats = figures.SpillTopic
	Totals     = figures.Totals
)

// Stats returns the figures. It asks the fallback store to count, and is meant for
// periodic use. If that fails, it returns the error together with the figures of this
// process: everything except Pending, Dead and OldestPending, which are zero. It is
// safe for concurrent use.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	figures, err := s.figures.Stats(ctx)
	if err != nil {
		figures = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	by := map[string]*TopicStats{}
	topic := func(name string) *TopicStats {
		if by[name] == nil {
			by[name] = &TopicStats{Topic: name}
		}
		return by[name]
	}
	for _, f := range figures {
		name, known := s.byRow[f.Name]
		if !known && !ours(f.Name) {
			continue
		}
		if !known {
			name = f.Name[len(prefix):]
		}
		t := topic(name)
		t.Pending, t.Dead, t.OldestPending = pending(&f), f.Dead, f.OldestWaiting
	}
	all := Stats{Blind: s.blind}
	for name, t := range s.topics {
		all.LatchedKeys += len(t.latched)
		if !t.down && t.again.IsZero() && t.Totals == (Totals{}) {
			continue
		}
		f := topic(name) // if it was down once it is said of it, too, that it is not any more
		f.Totals, f.Down = t.Totals, t.down
		if t.down {
			f.Why = t.err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		all.Topics = append(all.Topics, *by[name])
	}
	return all, err
}

// pending is how many rows a topic of the fallback store has.
func pending(f *store.TopicStats) int64 { return f.Waiting + f.Delayed + f.Leased }

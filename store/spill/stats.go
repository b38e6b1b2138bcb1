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

// tally changes the totals of a topic, of this process.
func (s *Store) tally(topic string, change func(*Totals)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.count[topic]
	if c == nil {
		c = &Totals{}
		s.count[topic] = c
	}
	change(c)
}

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
		if !known && !s.ours(f.Name) {
			continue
		}
		if !known {
			name = f.Name[len(s.cfg.Prefix):]
		}
		t := topic(name)
		t.Pending, t.Dead, t.OldestPending = pending(&f), f.Dead, f.OldestWaiting
	}
	for name, c := range s.count {
		topic(name).Totals = *c
	}
	for name, h := range s.topics {
		switch {
		case h.down:
			t := topic(name)
			t.Down, t.Why = true, h.err
		case !h.again.IsZero():
			topic(name) // it is said of it, too, that it is not down any more
		}
	}
	all := Stats{LatchedKeys: int(s.latched.Load()), ActiveSince: s.since, Blind: s.blind.Load()}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		all.Topics = append(all.Topics, *by[name])
	}
	return all, err
}

// pending is how many rows a topic of the fallback store has.
func pending(f *store.TopicStats) int64 { return f.Waiting + f.Delayed + f.Leased }

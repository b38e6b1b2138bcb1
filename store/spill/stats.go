package spill

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// Stats are the figures of a store. Totals are those of this process.
type Stats struct {
	// Topics are those with a row or a total, or that the primary store once did not
	// take, by name.
	Topics []TopicStats
	// LatchedKeys is how many keys this process sends behind their rows.
	LatchedKeys int
	// ActiveSince is when the first of them was latched; zero: none is.
	ActiveSince time.Time
	// Blind Totals appends that could not learn what other processes have spilled,
	// because the fallback store did not answer.
	Blind int64
}

// TopicStats are the figures of a topic.
type TopicStats struct {
	Topic string
	// Pending rows wait in the fallback store, those of other processes included;
	// Dead ones wait for an operator. OldestPending is how long the oldest has been
	// waiting.
	Pending, Dead int64
	OldestPending time.Duration
	// Down: the primary store takes nothing of the topic now, because of Why.
	Down bool
	Why  error
	Totals
}

// Totals are the totals of a topic, of this process.
type Totals struct {
	// Spilled messages went to the fallback store: surely not in the primary store,
	// or perhaps. Diverted ones went to the dead-letter route; lost ones nowhere.
	SpilledFailed, SpilledUnknown, Diverted, Lost int64
	// Compensated rows are in the primary store again; Proven are those of them that
	// it turned out to have had. CompensationsFailed Totals tries in vain, Buried
	// rows that became dead letters.
	Compensated, Proven, CompensationsFailed, Buried int64
}

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
// slow clocks. If that fails, its error comes with what this process knows by itself:
// everything but Pending, Dead and OldestPending, which are zero. It is safe for
// concurrent use.
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

package memory

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// registry has the topics: settings, pauses and figures.
type registry struct{ *core }

// Topic implements [store.Topics].
func (s *registry) Topic(ctx context.Context, name string) (store.Topic, error) {
	if _, err := s.enter(ctx, "topic"); err != nil {
		return store.Topic{}, err
	}
	defer s.mu.Unlock()
	t := s.topics[name]
	if t == nil {
		return store.Topic{}, &store.Error{Op: "topic " + name, Code: store.ErrNotFound}
	}
	return t.Topic, nil
}

// Declare implements [store.Topics].
func (s *registry) Declare(ctx context.Context, d store.Declaration) (store.Topic, error) {
	if err := d.Validate(); err != nil {
		return store.Topic{}, err
	}
	if _, err := s.enter(ctx, "declare"); err != nil {
		return store.Topic{}, err
	}
	defer s.mu.Unlock()
	now := store.NewTopic(d.Name)
	t := s.topics[d.Name]
	if t != nil {
		now = t.Topic
	}
	agreed, err := d.Apply(now, t == nil || t.empty())
	if err != nil {
		return store.Topic{}, err
	}
	s.topic(d.Name).Topic = agreed
	return agreed, nil
}

// Alter implements [store.Topics].
func (s *registry) Alter(ctx context.Context, to store.Topic) (store.Topic, error) {
	if err := to.Validate(); err != nil {
		return store.Topic{}, err
	}
	if _, err := s.enter(ctx, "alter"); err != nil {
		return store.Topic{}, err
	}
	defer s.mu.Unlock()
	t := s.topics[to.Name]
	if t == nil {
		return store.Topic{}, &store.Error{Op: "alter " + to.Name, Code: store.ErrNotFound}
	}
	next, err := to.Replace(t.Topic, t.empty())
	if err != nil {
		return store.Topic{}, err
	}
	t.Topic = next
	return next, nil
}

// empty reports whether no message but dead letters is here.
func (t *topic) empty() bool {
	a := &t.totals
	return a.Appended == a.Acked+a.Cancelled+a.Purged+a.Dead
}

// Pause implements [store.Topics].
func (s *registry) Pause(ctx context.Context, name string, d time.Duration, by, reason string) error {
	if err := pawl.ValidTopic(name); err != nil {
		return err
	}
	now, err := s.enter(ctx, "pause")
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	p := &store.Pause{Since: now, By: store.Text(by), Reason: store.Text(reason)}
	if d > 0 {
		p.Until = now.Add(d)
	}
	s.topic(name).pause = p
	return nil
}

// Resume implements [store.Topics].
func (s *registry) Resume(ctx context.Context, name string) error {
	if _, err := s.enter(ctx, "resume"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if t := s.topics[name]; t != nil {
		t.pause = nil
		s.wake(name)
	}
	return nil
}

func (t *topic) paused(now time.Time) bool {
	return t.pause != nil && (t.pause.Until.IsZero() || t.pause.Until.After(now))
}

// Stats implements [store.Topics].
func (s *registry) Stats(ctx context.Context, names ...string) ([]store.TopicStats, error) {
	now, err := s.enter(ctx, "stats")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	by := map[string]*store.TopicStats{}
	for name, t := range s.topics {
		if len(names) > 0 && !slices.Contains(names, name) {
			continue
		}
		st := t.totals
		st.Topic, st.Dead = t.Topic, 0
		if t.paused(now) {
			st.Paused = new(*t.pause)
		}
		by[name] = &st
	}
	for _, m := range s.messages {
		if st := by[m.Topic]; st != nil {
			count(st, m, now)
		}
	}
	all := make([]store.TopicStats, 0, len(by))
	for _, st := range by {
		all = append(all, *st)
	}
	slices.SortFunc(all, func(a, b store.TopicStats) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

func count(st *store.TopicStats, m *message, now time.Time) {
	switch m.state() {
	case store.Waiting:
		st.Waiting++
		st.OldestWaiting = max(st.OldestWaiting, now.Sub(m.visible))
	case store.Delayed:
		st.Delayed++
	case store.Leased:
		st.Leased++
		l := m.lane.lease
		if (store.LeaseRecord{StartedAt: l.started, Deadline: l.hard}).Stuck(now) {
			st.Stuck++
		}
	case store.IsDead:
		if m.Resolved != nil {
			st.Resolved++
		} else {
			st.Dead++
		}
	}
}

// state says where a message is.
func (m *message) state() store.State {
	l := m.lane
	switch {
	case l == nil:
		return m.State // dead or acked
	case l.lease != nil && slices.Contains(l.queue[:l.lease.run], m):
		return store.Leased
	case l.lease == nil && !l.until.IsZero() && l.queue[0] == m:
		return store.Delayed
	default:
		return store.Waiting
	}
}

package memory

import (
	"context"
	"maps"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// RemoveTopic implements [store.Topics].
func (s *registry) RemoveTopic(ctx context.Context, name string) error {
	if _, err := s.enter(ctx, "remove topic"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	t := s.topics[name]
	switch {
	case t == nil:
		return &store.Error{Op: "topic " + name, Code: store.ErrNotFound}
	case !t.empty() || t.totals.Dead > 0:
		return backend.NotEmpty(name)
	}
	for _, l := range s.lanes { // held ones, without messages
		if l.topic == t {
			l.move(nil)
			delete(s.lanes, l.id)
		}
	}
	maps.DeleteFunc(s.messages, func(_ string, m *message) bool { return m.Topic == name })
	delete(s.topics, name)
	return nil
}

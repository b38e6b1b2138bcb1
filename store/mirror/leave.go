package mirror

import (
	"context"

	"github.com/pawl-dev/pawl/store"
)

// leaver is a store in which a process that claims has a share of the topic to itself, and
// keeps it until it leaves.
type leaver interface {
	Leave(ctx context.Context, topics ...string) error
}

// visit notes that this process claims from a topic in the mirrored store.
func (s *Store) visit(name string) { s.visited.Store(name, true) }

// leave gives up what this process has of a topic in the mirrored store, if it has claimed
// there. Otherwise a command that compares the stores, or moves the topic again, could not
// claim it.
func (s *Store) leave(name string) {
	if _, ok := s.visited.LoadAndDelete(name); !ok {
		return
	}
	l, ok := store.As[leaver](s.mirrored)
	if !ok {
		return
	}
	s.background(func() {
		if err := l.Leave(s.life, name); err != nil && s.cfg.Report != nil {
			s.cfg.Report(err) // work finished there is repeated by the next claimer
		}
	})
}

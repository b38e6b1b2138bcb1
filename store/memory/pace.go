package memory

import (
	"context"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// paceScope is where the times of keys are, as marks: no caller can name it.
const paceScope = ""

// Reserve implements [store.Shared].
func (s *side) Reserve(ctx context.Context, paces ...store.Pace) ([]store.Paced, error) {
	paces, err := backend.AdmitPaces(paces)
	if err != nil {
		return nil, err
	}
	now, err := s.enter(ctx, "reserve")
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	answers := make([]store.Paced, len(paces))
	for i := range paces {
		m := store.Marked{Scope: paceScope, Key: paces[i].Key, Until: now}
		if have, there := s.marks.find(now, paceScope, m.Key); there {
			m = have
		}
		next, answer := paces[i].Advance(m.Until.Sub(now))
		m.Until, answers[i] = now.Add(next), answer
		s.marks.put(m)
	}
	s.marks.tidy(now)
	return answers, nil
}

package wecom

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// health is asked every few seconds.
func (b *bridge) health(context.Context) pipeline.Health {
	b.mu.Lock()
	defer b.mu.Unlock()
	h := pipeline.Health{LastSuccess: b.last}
	for _, why := range []string{b.halted, b.storing, b.deaf, b.client.limited(), b.figures.late()} {
		if why != "" && h.Degraded == "" {
			h.Degraded = why
		}
	}
	return h
}

// doctor looks for problems.
func doctor(ctx context.Context, env pipeline.Env) []pipeline.Finding {
	marks, ok := store.As[store.Shared](env.Store, store.CanMarks)
	if !ok {
		return nil
	}
	var all []pipeline.Finding
	for id, a := range accountsOf(marks, env.Name).all(ctx) {
		age := time.Since(a.Fresh)
		switch {
		case a.Parked != "":
			all = append(all, pipeline.Finding{Problem: "account " + id + " is parked: " + a.Parked,
				Next: "pawl wecom pull " + id, Warning: true})
		case !a.Fresh.IsZero() && age > cursorLate:
			all = append(all, pipeline.Finding{Problem: lateText(id, age), Next: "pawl wecom status"})
		}
	}
	return all
}

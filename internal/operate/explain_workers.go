package operate

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// service is the reports of the workers about a topic.
type service struct {
	now    time.Time
	served *bool // nil: the store cannot tell
	// limit keeps the topic back in every worker, and owner is one of them; of a
	// plain rate perSecond is that of all of them. They hold heldBack for it.
	limit, owner string
	perSecond    float64
	heldBack     int
}

// none tells whether there is surely no worker.
func (s *service) none() bool { return s.served != nil && !*s.served }

// servedBy finds the workers of a topic. A worker that has not reported lately is gone,
// and one that drains claims nothing more. A worker that never reports, such as a
// program that uses only the library, is known by what it holds.
func servedBy(ctx context.Context, s store.Store, i store.Looker, topic *store.TopicStats) (*service, error) {
	entries, ok := store.As[store.Entries](s)
	if !ok {
		return &service{}, nil
	}
	workers, now, err := announced(ctx, entries)
	if err != nil {
		return nil, err
	}
	by := &service{now: now, served: new(false)}
	serving := map[string]*WorkerTopic{}
	for owner, w := range workers {
		if !*w.Alive || w.Draining {
			continue
		}
		for j := range w.Topics {
			if w.Topics[j].Topic == topic.Name {
				serving[owner] = &w.Topics[j]
			}
		}
	}
	if len(serving) > 0 {
		*by.served = true
		by.limits(serving)
		return by, nil
	}
	if topic.Leased == 0 {
		return by, nil
	}
	for r, err := range i.List(ctx, store.Filter{Topic: topic.Name, State: store.Leased, Limit: countAhead}) {
		if err != nil {
			return nil, err
		}
		if r.Lease != nil && workers[r.Lease.Owner] == nil {
			*by.served = true
			break
		}
	}
	return by, nil
}

// limits finds the limit that keeps a topic back in every worker that carries it out.
func (s *service) limits(serving map[string]*WorkerTopic) {
	plain := true
	for owner, t := range serving {
		if t.LimitedBy == "" {
			s.limit = ""
			return
		}
		if owner > s.owner {
			s.limit, s.owner = t.LimitedBy, owner
		}
	}
	for _, t := range serving {
		s.heldBack += t.HeldBack
		l := t.limit(s.limit)
		switch {
		case l == nil || l.ByKey || l.PerSecond <= 0 || l.Concurrency > 0 || l.Window > 0:
			plain = false
		case l.Shared:
			s.perSecond = l.PerSecond
		default:
			s.perSecond += l.PerSecond
		}
	}
	if !plain {
		s.perSecond = 0
	}
}

// limit is a limit of a topic by its name, or nil.
func (t *WorkerTopic) limit(name string) *WorkerLimit {
	for i := range t.Limits {
		if t.Limits[i].Limit == name {
			return &t.Limits[i]
		}
	}
	return nil
}

package mirror

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Claim implements [store.Store]. When there is something of either store, a call has
// that of one of them, and the next call begins with the other one. In Returning it
// carries messages back first.
func (s *Store) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	here, there, names, err := s.split(ctx, wants, lease)
	if err != nil {
		return nil, err
	}
	switch {
	case len(there) == 0:
		return s.primary.Claim(ctx, here, lease)
	case len(here) == 0:
		return s.claimMirrored(ctx, there, lease, names)
	}
	first, second := func() ([]pawl.Delivery, error) { return s.primary.Claim(ctx, here, lease) },
		func() ([]pawl.Delivery, error) { return s.claimMirrored(ctx, there, lease, names) }
	if s.turn.Add(1)%2 == 0 {
		first, second = second, first
	}
	ds, err := first()
	if err != nil || len(ds) > 0 {
		return ds, err
	}
	return second()
}

// split says which store is asked for what, and the topics' names by those in the
// mirrored store.
func (s *Store) split(ctx context.Context, wants []store.Want, lease store.Lease) (here, there []store.Want, names map[string]string, err error) {
	if s.stages.plans == nil {
		return wants, nil, nil, nil
	}
	for i, w := range wants {
		r, err := s.stages.look(ctx, w.Topic)
		if err != nil {
			return nil, nil, nil, err
		}
		switch r.stage {
		case Moved:
			if there == nil {
				names = map[string]string{}
				here = append(here, wants[:i]...)
			}
			names[r.plan.InMirrored()] = w.Topic
			w.Topic = r.plan.InMirrored()
			there = append(there, w)
			continue
		case Returning, Closing:
			if w.Limit > 0 && lease.For > 0 {
				if err := s.carryBack(ctx, w.Topic, r, lease.Owner); err != nil {
					return nil, nil, nil, err
				}
			}
		}
		if there != nil {
			here = append(here, w)
		}
	}
	if there == nil {
		here = wants
	}
	return here, there, names, nil
}

// carryBack carries what this process can claim in the mirrored store: with some stores
// nobody else can. In Closing it asks first, because copies follow any moment, and these
// are not to be carried.
func (s *Store) carryBack(ctx context.Context, topic string, r route, owner string) error {
	if r.stage == Closing {
		if r.plan.From != Returning {
			return nil
		}
		if err := s.stages.read(ctx, time.Now()); err != nil {
			return err
		}
		if r = s.stages.route(topic); r.stage != Closing && r.stage != Returning {
			return nil
		}
	}
	_, err := s.Carry(ctx, topic, carryAtOnce, owner)
	return err
}

func (s *Store) claimMirrored(ctx context.Context, wants []store.Want, lease store.Lease, names map[string]string) ([]pawl.Delivery, error) {
	ds, err := s.mirrored.Claim(ctx, wants, lease)
	now := time.Now()
	for i := range ds {
		s.foreign.add(ds[i].Token, now, ds[i].Deadline)
		ds[i].Topic = names[ds[i].Topic]
	}
	return ds, err
}

// leases are the tokens of a store that are not settled yet.
type leases struct {
	mu    sync.Mutex // never held across a wait
	until map[pawl.Token]time.Time
	prune int // at so many
}

const fewLeases = 1024

func (l *leases) add(tok pawl.Token, now time.Time, deadline time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until == nil {
		l.until, l.prune = map[pawl.Token]time.Time{}, fewLeases
	}
	if len(l.until) >= l.prune {
		for t, until := range l.until {
			if now.After(until) {
				delete(l.until, t)
			}
		}
		l.prune = max(fewLeases, 2*len(l.until))
	}
	l.until[tok] = now.Add(2*deadline + time.Minute)
}

func (l *leases) has(tok pawl.Token) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.until[tok]
	return ok
}

func (l *leases) none() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.until) == 0
}

func (l *leases) remove(tok pawl.Token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.until, tok)
}

// Extend implements [store.Store].
func (s *Store) Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
	if s.foreign.none() {
		return s.primary.Extend(ctx, by, tokens...)
	}
	var here, there []pawl.Token
	for _, t := range tokens {
		if s.foreign.has(t) {
			there = append(there, t)
		} else {
			here = append(here, t)
		}
	}
	if len(there) == 0 {
		return s.primary.Extend(ctx, by, tokens...)
	}
	lost, err := s.mirrored.Extend(ctx, by, there...)
	if err != nil || len(here) == 0 {
		return lost, err
	}
	more, err := s.primary.Extend(ctx, by, here...)
	return append(lost, more...), err
}

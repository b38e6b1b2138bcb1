package operate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/store"
)

// forgetAfter is how old a registration is that nobody needs to see any more.
const forgetAfter = time.Hour

// Worker is a worker, as JSON: one that is registered, or one that holds leases.
type Worker struct {
	Owner string `json:"owner"`
	// Alive reports whether its registration is fresh; null for one that is not registered
	// (dispatch.Config.Unregistered, or a program that claims by itself).
	Alive *bool `json:"alive"`
	// SeenAt is when it last reported, by the store's clock.
	SeenAt *time.Time `json:"seen_at"`
	*roster.Registration
	Leased             int64   `json:"leased"`
	LeasedFrom         []Held  `json:"holds"`
	OldestLeaseSeconds float64 `json:"oldest_lease_seconds"`
}

// Held is how many messages of a topic a worker holds.
type Held struct {
	Topic  string `json:"topic"`
	Leased int64  `json:"leased"`
}

// mostLeases bounds how many leases are looked at.
const mostLeases = 100_000

// Workers returns all workers by name, with what they hold. It reads every lease, and
// is meant for people.
func Workers(ctx context.Context, s store.Store) ([]Worker, error) {
	entries, ok := store.As[store.Shared](s)
	if !ok {
		return nil, &store.Error{Op: "list workers", Code: store.ErrUnsupported}
	}
	found, now, err := registered(ctx, entries)
	if err != nil {
		return nil, err
	}
	if err := holders(ctx, s, now, found); err != nil {
		return nil, err
	}
	workers := make([]Worker, 0, len(found))
	for _, owner := range slices.Sorted(maps.Keys(found)) {
		workers = append(workers, *found[owner])
	}
	return workers, nil
}

// registered returns, by owner, the workers whose registration is of the last hour, and
// the time by the store's clock.
func registered(ctx context.Context, entries store.Shared) (found map[string]*Worker, now time.Time, err error) {
	if now, err = entries.Clock(ctx); err != nil {
		return nil, now, err
	}
	found = map[string]*Worker{}
	for e, err := range roster.All(ctx, entries) {
		if err != nil {
			return nil, now, err
		}
		w := Worker{Alive: new(e.Alive(now)), SeenAt: new(e.At.UTC()), LeasedFrom: []Held{}}
		if now.Sub(e.At) > forgetAfter {
			_ = entries.DeleteState(ctx, e.Key, e.Version) // it is a courtesy
			continue
		}
		of := e.Registration.Workers
		if len(of) == 0 {
			of = []roster.Registration{*e.Registration}
		}
		for i := range of {
			one := w
			one.Registration, one.Owner = &of[i], cmp.Or(of[i].Owner, e.Registration.Owner)
			found[one.Owner] = one.with(found[one.Owner])
		}
	}
	return found, now, nil
}

// with returns the one worker that two registrations with the same owner make: of several
// dispatchers of a program, all topics; of one that was started again, the living.
func (w *Worker) with(other *Worker) *Worker {
	switch {
	case other == nil || *w.Alive && !*other.Alive:
		return w
	case *other.Alive && !*w.Alive:
		return other
	}
	w.Topics = append(other.Topics, w.Topics...)
	w.Draining = w.Draining && other.Draining
	if other.StartedAt.Before(w.StartedAt) {
		w.StartedAt = other.StartedAt
	}
	w.StoreWentBackAt = cmp.Or(w.StoreWentBackAt, other.StoreWentBackAt)
	return w
}

// holders adds the leases that workers hold.
func holders(ctx context.Context, s store.Store, now time.Time, found map[string]*Worker) error {
	i, ok := store.As[store.Inspector](s)
	if !ok {
		return nil
	}
	for r, err := range i.List(ctx, store.Filter{State: store.Leased, Limit: mostLeases}) {
		if err != nil {
			return err
		}
		if r.Lease == nil {
			continue
		}
		w := found[r.Lease.Owner]
		if w == nil {
			w = &Worker{Owner: r.Lease.Owner, LeasedFrom: []Held{}}
			found[w.Owner] = w
		}
		w.hold(r.Topic)
		w.OldestLeaseSeconds = max(w.OldestLeaseSeconds, now.Sub(r.Lease.StartedAt).Seconds())
	}
	return nil
}

func (w *Worker) hold(topic string) {
	w.Leased++
	for i := range w.LeasedFrom {
		if w.LeasedFrom[i].Topic == topic {
			w.LeasedFrom[i].Leased++
			return
		}
	}
	w.LeasedFrom = append(w.LeasedFrom, Held{topic, 1})
}

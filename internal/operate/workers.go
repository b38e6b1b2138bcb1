package operate

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// A running worker announces itself in the state of its store, so that people can see
// which workers there are, what keeps them busy and what limits them. Nothing is
// decided by it, and leases do not depend on it.

const (
	workerPrefix = "worker/"
	goneAfter    = 20 * time.Second // without a report
	forgetAfter  = time.Hour
)

// WorkerKey is where a worker's announcement is in the state of its store.
func WorkerKey(owner string) string { return workerPrefix + owner }

// Announced is a worker's announcement.
type Announced struct {
	Version   string        `json:"version"`
	StartedAt time.Time     `json:"started_at"`
	Draining  bool          `json:"draining"`
	Topics    []WorkerTopic `json:"topics"`
	// StoreWentBackAt is when it last noticed that the store is an older copy of itself.
	StoreWentBackAt *time.Time `json:"store_went_back_at,omitempty"`
}

// WorkerTopic is what a worker does in a topic, as JSON.
type WorkerTopic struct {
	Topic       string        `json:"topic"`
	Running     int           `json:"running"`
	Concurrency int           `json:"concurrency"`
	Waiting     int           `json:"waiting"`
	HeldBack    int           `json:"held_back"`
	Zombies     int           `json:"zombies"`
	PerSecond   float64       `json:"per_second"`
	MeanSeconds float64       `json:"mean_seconds"`
	LimitedBy   string        `json:"limited_by,omitempty"`
	Limits      []WorkerLimit `json:"limits,omitempty"`
}

// WorkerLimit is the state of a limiter of a worker, as JSON.
type WorkerLimit struct {
	Limit       string  `json:"limit"`
	PerSecond   float64 `json:"per_second,omitempty"`
	Shared      bool    `json:"shared,omitempty"`
	ByKey       bool    `json:"by_key,omitempty"` // it holds for each key, host or tenant by itself
	Concurrency int     `json:"concurrency,omitempty"`
	Window      float64 `json:"window,omitempty"`
	Running     int     `json:"running"`
	HeldBack    int64   `json:"held_back"`
}

// Worker is a worker, as JSON: one that announces itself, or one that holds leases.
type Worker struct {
	Owner string `json:"owner"`
	// Alive tells whether it reported lately; null for one that never reports, such as
	// a program that uses only the library.
	Alive *bool `json:"alive"`
	// SeenAt is when it last reported, by the store's clock.
	SeenAt *time.Time `json:"seen_at"`
	*Announced
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
	entries, ok := store.As[store.Entries](s)
	if !ok {
		return nil, &store.Error{Op: "list workers", Code: store.ErrUnsupported}
	}
	found, now, err := announced(ctx, entries)
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

// announced returns the workers that announced themselves within the last hour, and the
// time by the store's clock.
func announced(ctx context.Context, entries store.Entries) (found map[string]*Worker, now time.Time, err error) {
	if now, err = entries.Clock(ctx); err != nil {
		return nil, now, err
	}
	found = map[string]*Worker{}
	for e, err := range entries.ListState(ctx, workerPrefix, 0) {
		if err != nil {
			return nil, now, err
		}
		w := &Worker{Owner: e.Key[len(workerPrefix):], Alive: new(now.Sub(e.At) < goneAfter), SeenAt: new(e.At.UTC()),
			LeasedFrom: []Held{}}
		if err := json.Unmarshal(e.Value, &w.Announced); err != nil {
			continue // of another version
		}
		if now.Sub(e.At) > forgetAfter {
			_ = entries.DeleteState(ctx, e.Key, e.Version) // it is a courtesy
			continue
		}
		found[w.Owner] = w
	}
	return found, now, nil
}

// holders adds the leases that workers hold.
func holders(ctx context.Context, s store.Store, now time.Time, found map[string]*Worker) error {
	i, ok := store.As[store.Looker](s)
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

// announcement is the last announcement of a worker; nil if it never announced itself.
func announcement(ctx context.Context, s store.Store, owner string) (*Announced, error) {
	entries, ok := store.As[store.Entries](s)
	if !ok {
		return nil, nil
	}
	e, err := entries.GetState(ctx, workerPrefix+owner)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	var said Announced
	if err != nil || json.Unmarshal(e.Value, &said) != nil {
		return nil, err
	}
	return &said, nil
}

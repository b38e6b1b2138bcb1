// Package roster is the form in which running dispatchers register in the state of their
// store, so that people can see which workers there are, what keeps them busy and what
// limits them. Nothing is decided by it, and leases do not depend on it. Package dispatch
// writes it; `pawl workers ls`, `pawl explain` and `pawl doctor` read it, with [All].
package roster

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// Prefix begins the keys of registrations; the rest of a key is a name that no other dispatcher has.
const Prefix = "worker/"

// Every is how often a dispatcher renews its registration, at least.
const Every = 5 * time.Second

// GoneAfter is how old a registration is whose dispatcher is taken for gone.
const GoneAfter = 4 * Every

// Found is a registration, and the entry that it stands in.
type Found struct {
	store.Entry
	Registration *Registration
}

// Alive reports whether the dispatcher has renewed it lately. The time is the store's.
func (f *Found) Alive(now time.Time) bool { return now.Sub(f.At) < GoneAfter }

// All yields the registrations in the state of a store, without those that [Of] cannot read.
func All(ctx context.Context, entries store.Shared) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		for e, err := range entries.ListState(ctx, Prefix, 0) {
			f := Found{e, Of(&e)}
			if (err != nil || f.Registration != nil) && !yield(f, err) {
				return
			}
		}
	}
}

// Of returns the registration that an entry holds; nil if it is of another version.
func Of(e *store.Entry) *Registration {
	var of *Registration
	if json.Unmarshal(e.Value, &of) != nil || of == nil {
		return nil
	}
	if of.Owner == "" {
		of.Owner = e.Key[len(Prefix):]
	}
	return of
}

// Registration is what a dispatcher says of itself, as JSON.
type Registration struct {
	// Owner is the holder of its leases. Several dispatchers may have the same.
	Owner     string    `json:"owner,omitempty"`
	Version   string    `json:"version"`
	StartedAt time.Time `json:"started_at"`
	Draining  bool      `json:"draining"`
	Topics    []Topic   `json:"topics"`
	// StoreWentBackAt is when it last noticed that the store is an older copy of itself.
	StoreWentBackAt *time.Time `json:"store_went_back_at,omitempty"`
	// Workers are those that the registration is about, if it is not about its writer: programs
	// that work over the HTTP API of a process.
	Workers []Registration `json:"workers,omitempty"`
}

// Topic is what a dispatcher does in a topic.
type Topic struct {
	Topic       string  `json:"topic"`
	Running     int     `json:"running"`
	Concurrency int     `json:"concurrency"`
	Waiting     int     `json:"waiting"`
	HeldBack    int     `json:"held_back"`
	Zombies     int     `json:"zombies"`
	PerSecond   float64 `json:"per_second"`
	MeanSeconds float64 `json:"mean_seconds"`
	LimitedBy   string  `json:"limited_by,omitempty"`
	Limits      []Limit `json:"limits,omitempty"`
	// ReadWhole says that it reads the topic from beginning to end (store.Results), and claims nothing there.
	ReadWhole bool `json:"read_whole,omitempty"`
}

// Limit is the state of a limiter.
type Limit struct {
	Limit       string  `json:"limit"`
	PerSecond   float64 `json:"per_second,omitempty"`
	Shared      bool    `json:"shared,omitempty"`
	ByKey       bool    `json:"by_key,omitempty"` // it holds for each key, host or tenant by itself
	Concurrency int     `json:"concurrency,omitempty"`
	Window      float64 `json:"window,omitempty"`
	Running     int     `json:"running"`
	HeldBack    int64   `json:"held_back"`
}

// Limit returns a limit of the topic by its name, or nil.
func (t *Topic) Limit(name string) *Limit {
	for i := range t.Limits {
		if t.Limits[i].Limit == name {
			return &t.Limits[i]
		}
	}
	return nil
}

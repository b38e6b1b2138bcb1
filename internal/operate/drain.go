package operate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/store"
)

// drainTries is how often a request to drain is written: the worker may renew its registration meanwhile.
const drainTries = 5

// Drain asks a worker that is alive to end in good order. The request is written into its registration, where it
// reads it within [roster.Every]; so that it does not come too late, asking a worker that has gone is an error.
func Drain(ctx context.Context, s store.Store, owner, who string) error {
	op := "drain worker " + owner
	entries, ok := store.As[store.Shared](s)
	if !ok {
		return &store.Error{Op: op, Code: store.ErrUnsupported}
	}
	now, err := entries.Clock(ctx)
	if err != nil {
		return err
	}
	var all []store.Entry
	for e, err := range roster.All(ctx, entries) {
		if err != nil {
			return err
		}
		switch {
		case !e.Alive(now):
		case e.Registration.Owner == owner:
			all = append(all, e.Entry)
		case slices.ContainsFunc(e.Registration.Workers, func(w roster.Registration) bool { return w.Owner == owner }):
			return &store.Error{Op: op, Code: store.ErrConflict, Hint: "end the program itself",
				Err: errors.New("it works over the HTTP API, and ends by itself")}
		}
	}
	if len(all) == 0 {
		return &store.Error{Op: op, Code: store.ErrNotFound, Hint: "`pawl workers ls` lists those that are",
			Err: errors.New("no worker with this name is registered and alive")}
	}
	for _, e := range all { // a program may have several dispatchers
		if err := askToDrain(ctx, entries, e, who); err != nil {
			return err
		}
	}
	return nil
}

func askToDrain(ctx context.Context, entries store.Shared, e store.Entry, who string) error {
	for try := 1; ; try++ {
		of := roster.Of(&e)
		if of == nil {
			return nil
		}
		of.Draining = true
		text, err := json.Marshal(of)
		if err == nil {
			_, err = entries.PutState(ctx, e.Key, text, e.Version, who)
		}
		if !errors.Is(err, store.ErrConflict) || try == drainTries {
			return err
		}
		if e, err = entries.GetState(ctx, e.Key); errors.Is(err, store.ErrNotFound) {
			return nil // it has ended
		} else if err != nil {
			return err
		}
	}
}

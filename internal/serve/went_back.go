package serve

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// A store that fails over to an older copy of itself has lost work, and says nothing.
// Versions of its state only grow, and a worker puts its announcement there every few
// seconds: one that finds an older announcement than its last knows what has happened.

// put stores what the worker says. Nobody else writes under its name.
func (a *Announcement) put(ctx context.Context) error {
	text, err := json.Marshal(a.text())
	if err != nil {
		return err
	}
	key, expected := operate.WorkerKey(a.owner), a.last.Version
	if expected == 0 {
		expected = store.AnyVersion
	}
	now, err := a.entries.PutState(ctx, key, text, expected, a.owner)
	var found store.Entry
	if errors.Is(err, store.ErrConflict) {
		found, err = a.entries.GetState(ctx, key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		now, err = a.entries.PutState(ctx, key, text, store.AnyVersion, a.owner)
	}
	if err != nil {
		return err
	}
	// One that is not there may have been forgotten, which is a change as well: then
	// the new version is higher all the same.
	if before := a.last; now.Version <= before.Version || found.Version > 0 && found.Version < before.Version {
		a.noteBack(before, found, now)
	}
	a.last = now
	return nil
}

// noteBack says that the store has gone back.
func (a *Announcement) noteBack(before, found, now store.Entry) {
	at := now.At.UTC()
	a.backAt = &at
	args := []any{"until", before.At.UTC().Round(time.Millisecond)}
	if !found.At.IsZero() {
		args = append(args, "from", found.At.UTC().Round(time.Millisecond))
	}
	a.logger.Error(
		"the store went back: it is an older copy of itself; messages sent since then may be lost, and work done since then is done again",
		args...)
	if a.wentBack != nil {
		a.wentBack()
	}
}

package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

const (
	announceEvery = 5 * time.Second
	lookEvery     = time.Second // whether there is news: of what limits it
)

// Announcement publishes the state of a worker until it is stopped.
type Announcement struct {
	entries  store.Entries
	owner    string
	version  string
	began    time.Time
	snapshot func() dispatch.Snapshot
	logger   *slog.Logger
	wentBack func() // called when the store is an older copy; may be nil

	last   store.Entry // the last announcement, as the store had it
	backAt *time.Time  // when it was last noticed that the store went back

	stop chan struct{}
	done sync.WaitGroup
}

// Announce begins to publish the state of a worker; nil when the store keeps no state.
// wentBack, if not nil, is called when the store turns out to be an older copy.
func Announce(s store.Store, owner, version string, logger *slog.Logger, snapshot func() dispatch.Snapshot,
	wentBack func()) *Announcement {
	entries, ok := store.As[store.Entries](s)
	if !ok {
		return nil
	}
	a := &Announcement{entries: entries, owner: owner, version: version, began: time.Now(), snapshot: snapshot,
		logger: logger, wentBack: wentBack, stop: make(chan struct{})}
	a.done.Go(a.loop)
	return a
}

func (a *Announcement) loop() {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	silent, last, news := false, time.Time{}, ""
	for {
		if now := a.news(); now != news || time.Since(last) >= announceEvery {
			last, news = time.Now(), now
			err := a.say()
			if err != nil && !silent { // the runtime itself reports a store that is unreachable
				a.logger.Debug("could not announce this worker", "error", err)
			}
			silent = err != nil
		}
		select {
		case <-ticker.C:
		case <-a.stop:
			return
		}
	}
}

// news is what others should soon know of: which topics a limit keeps back, and
// whether the worker drains.
func (a *Announcement) news() string {
	now := a.snapshot()
	var text strings.Builder
	text.WriteString(fmt.Sprint(now.Draining))
	for _, t := range now.Topics {
		text.WriteString(" " + t.LimitedBy + fmt.Sprint(t.HeldBack > 0))
	}
	return text.String()
}

func (a *Announcement) say() error {
	ctx, cancel := context.WithTimeout(context.Background(), announceEvery)
	defer cancel()
	before := a.backAt
	err := a.put(ctx)
	if err == nil && a.backAt != before { // the others should know at once
		err = a.put(ctx)
	}
	return err
}

func (a *Announcement) text() operate.Announced {
	now := a.snapshot()
	said := operate.Announced{Version: a.version, StartedAt: a.began.UTC(), Draining: now.Draining,
		StoreWentBackAt: a.backAt, Topics: []operate.WorkerTopic{}}
	for i := range now.Topics {
		said.Topics = append(said.Topics, formWorkerTopic(&now.Topics[i]))
	}
	return said
}

func formWorkerTopic(t *dispatch.TopicSnapshot) operate.WorkerTopic {
	f := operate.WorkerTopic{
		Topic: t.Name, Running: t.Running, Concurrency: t.Concurrency, Waiting: t.Waiting, HeldBack: t.HeldBack,
		Zombies:   t.Zombies,
		PerSecond: t.Rate, MeanSeconds: t.Mean.Seconds(), LimitedBy: t.LimitedBy,
	}
	for _, l := range t.Limits {
		f.Limits = append(f.Limits, operate.WorkerLimit{
			Limit: l.Name, PerSecond: l.Rate, Shared: l.Shared, ByKey: l.Keyed, Concurrency: l.Concurrency,
			Window:  l.Window,
			Running: l.Running, HeldBack: l.HeldBack,
		})
	}
	return f
}

// Stop ends it, and withdraws the announcement: the worker is gone.
func (a *Announcement) Stop() {
	if a == nil {
		return
	}
	close(a.stop)
	a.done.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := a.entries.DeleteState(ctx, operate.WorkerKey(a.owner), store.AnyVersion); err != nil &&
		!errors.Is(err, store.ErrNotFound) {
		a.logger.Debug("could not take back the announcement of this worker", "error", err)
	}
}

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

package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/store"
)

const (
	newsEvery    = time.Second // whether there is news: of what limits a dispatcher
	withdrawTime = time.Second // of the call that withdraws a registration, at most
)

// registration keeps a dispatcher registered in the state of its store.
type registration struct {
	of      *watcher
	entries store.Shared
	key     string
	began   time.Time

	last   store.Entry // as the store had it
	backAt *time.Time  // when it was last noticed that the store went back
}

// register begins to keep the dispatcher registered, if its store keeps entries.
func (d *watcher) register() {
	entries, ok := store.As[store.Shared](d.store)
	if !ok || d.cfg.Unregistered {
		return
	}
	d.registered = &registration{of: d, entries: entries, key: roster.Prefix + pawl.NewID(), began: time.Now()}
	d.wg.Go(d.registered.loop)
}

func (g *registration) loop() {
	ticker := time.NewTicker(newsEvery)
	defer ticker.Stop()
	silent, last, news := false, time.Time{}, ""
	for {
		if now := g.news(); now != news || time.Since(last) >= roster.Every {
			last, news = time.Now(), now
			err := g.say()
			if err != nil && !silent && g.of.io.Err() == nil { // a store that is unreachable is reported by its calls
				g.of.cfg.Logger.Debug("could not register this worker", "error", err)
			}
			silent = err != nil
		}
		select {
		case <-ticker.C:
		case <-g.of.stop:
			return
		}
	}
}

// news is the state that other processes should soon know of: the topics that a limit
// holds back, and whether the worker drains.
func (g *registration) news() string {
	now := g.of.Snapshot()
	var text strings.Builder
	text.WriteString(fmt.Sprint(now.Draining))
	for _, t := range now.Topics {
		text.WriteString(" " + t.LimitedBy + fmt.Sprint(t.HeldBack > 0))
	}
	return text.String()
}

func (g *registration) say() error {
	ctx, cancel := context.WithTimeout(g.of.io, roster.Every)
	defer cancel()
	before := g.backAt
	err := g.put(ctx)
	if err == nil && g.backAt != before { // the others should know at once
		err = g.put(ctx)
	}
	return err
}

func (g *registration) text() roster.Registration {
	now := g.of.Snapshot()
	said := roster.Registration{Owner: now.Owner, Version: g.of.cfg.Version, StartedAt: g.began.UTC(),
		Draining: now.Draining, StoreWentBackAt: g.backAt, Topics: []roster.Topic{}}
	for i := range now.Topics {
		said.Topics = append(said.Topics, registeredTopic(&now.Topics[i]))
	}
	for _, name := range g.of.cfg.Results {
		said.Topics = append(said.Topics, roster.Topic{Topic: name, ReadWhole: true})
	}
	return said
}

func registeredTopic(t *TopicSnapshot) roster.Topic {
	f := roster.Topic{
		Topic: t.Name, Running: t.Running, Concurrency: t.Concurrency, Waiting: t.Waiting, HeldBack: t.HeldBack,
		Zombies: t.Zombies, PerSecond: t.Rate, MeanSeconds: t.Mean.Seconds(), LimitedBy: t.LimitedBy,
	}
	for _, l := range t.Limits {
		f.Limits = append(f.Limits, roster.Limit{
			Limit: l.Name, PerSecond: l.Rate, Shared: l.Shared, ByKey: l.Keyed, Concurrency: l.Concurrency,
			Window: l.Window, Running: l.Running, HeldBack: l.HeldBack,
		})
	}
	return f
}

// withdraw removes the registration: the worker is gone.
func (g *registration) withdraw() {
	ctx, cancel := context.WithTimeout(g.of.base, withdrawTime)
	defer cancel()
	err := g.entries.DeleteState(ctx, g.key, store.AnyVersion)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		g.of.cfg.Logger.Debug("could not withdraw the registration of this worker", "error", err)
	}
}

// A store that fails over to an older copy of itself has lost work, and says nothing.
// Versions of its state only grow, and a worker puts its registration there every few
// seconds: one that finds an older registration than its last knows what has happened.

// put stores the registration. Nobody else writes under its key, except to ask the worker to drain.
func (g *registration) put(ctx context.Context) error {
	text, err := json.Marshal(g.text())
	if err != nil {
		return err
	}
	expected := g.last.Version
	if expected == 0 {
		expected = store.AnyVersion
	}
	now, err := g.entries.PutState(ctx, g.key, text, expected, g.of.cfg.Owner)
	var found store.Entry
	if errors.Is(err, store.ErrConflict) {
		found, err = g.entries.GetState(ctx, g.key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		g.obey(found)
		now, err = g.entries.PutState(ctx, g.key, text, store.AnyVersion, g.of.cfg.Owner)
	}
	if err != nil {
		return err
	}
	// One that is not there may have been forgotten, which is a change as well: then
	// the new version is higher all the same.
	if before := g.last; now.Version <= before.Version || found.Version > 0 && found.Version < before.Version {
		g.noteBack(before, found, now)
	}
	g.last = now
	return nil
}

// obey drains if somebody has written into the registration that the worker drains.
func (g *registration) obey(found store.Entry) {
	var asked roster.Registration
	if found.Version <= g.last.Version || json.Unmarshal(found.Value, &asked) != nil || !asked.Draining {
		return
	}
	g.of.cfg.Logger.Info("asked to drain", slog.String("by", found.Writer))
	g.of.engine.endRun(ErrAsked)
}

// noteBack says that the store has gone back.
func (g *registration) noteBack(before, found, now store.Entry) {
	at := now.At.UTC()
	g.backAt = &at
	args := []any{slog.Time("until", before.At.UTC().Round(time.Millisecond))}
	if !found.At.IsZero() {
		args = append(args, slog.Time("from", found.At.UTC().Round(time.Millisecond)))
	}
	g.of.cfg.Logger.Error(
		"the store went back: it is an older copy of itself; messages sent since then may be lost, and work done since then is done again",
		args...)
	if o, ok := g.of.cfg.Observer.(BackObserver); ok {
		o.StoreWentBack()
	}
}

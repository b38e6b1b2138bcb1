package watch

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/figures"
	"github.com/pawl-dev/pawl/store"
)

const (
	// depthEvery is how often messages are counted.
	depthEvery = 10 * time.Second
	// depthKept is for how long figures stand for what is there, if it cannot be
	// counted any more. Older ones are useless: an alert on them would not fire, or
	// never clear.
	depthKept = time.Minute
)

// counting watches over something that is counted again and again.
type counting struct {
	log     *slog.Logger
	what    string
	at      time.Time // when it last succeeded
	failing bool
}

// note takes the outcome of a count. What was counted before is out of date if it
// returns true.
func (c *counting) note(err error) (stale bool) {
	now := time.Now()
	if err == nil {
		if c.failing {
			c.log.Info(c.what+" are counted again", "after", now.Sub(c.at))
		}
		c.at, c.failing = now, false
		return false
	}
	if !c.failing {
		c.log.Warn(c.what+" cannot be counted; figures and alerts on them are missing until they are", "error", err)
	}
	c.failing = true
	return now.Sub(c.at) >= depthKept
}

// Topics counts the messages of the topics of a store, every ten seconds until ctx ends: of all topics, so that one
// that nobody works is seen. names are those that this process works, whose figures are expected.
func Topics(ctx context.Context, s store.Store, names []string, m *observe.Metrics, log *slog.Logger) {
	topics, ok := store.As[store.Topics](s)
	if !ok {
		return
	}
	began := time.Now()
	c := counting{log: log, what: "topics", at: began}
	for _, name := range names {
		m.DepthCounted(name, began)
	}
	for {
		once, cancel := context.WithTimeout(ctx, depthEvery)
		stats, err := topics.Stats(once)
		cancel()
		if ctx.Err() != nil {
			return
		}
		stale := c.note(err)
		for _, name := range names {
			if err == nil {
				m.DepthCounted(name, c.at)
			}
		}
		if stale {
			m.DepthUnknown()
		}
		results := sync.OnceValue(func() map[string]bool { return readWhole(ctx, s) })
		for i := range stats {
			t := &stats[i]
			if t.Waiting > 0 && !slices.Contains(names, t.Name) && results()[t.Name] {
				m.Depth(t.Name, 0, 0, 0, 0, 0)
				continue
			}
			m.Paused(t.Name, t.Paused != nil)
			if slices.Contains(names, t.Name) {
				countTopKey(ctx, s, t, m)
			}
			m.Depth(t.Name, t.Waiting, t.Delayed, t.Leased, t.Dead, max(0, t.OldestWaiting))
		}
		if store.Sleep(ctx, depthEvery) != nil {
			return
		}
	}
}

// readWhole returns the topics that a program that is there reads from beginning to end: what waits there waits for no
// worker.
func readWhole(ctx context.Context, s store.Store) map[string]bool {
	entries, ok := store.As[store.Shared](s, store.CanState)
	if !ok {
		return nil
	}
	now, err := entries.Clock(ctx)
	if err != nil {
		return nil
	}
	topics := map[string]bool{}
	for worker, err := range roster.All(ctx, entries) {
		if err != nil || !worker.Alive(now) {
			continue
		}
		for _, t := range worker.Registration.Topics {
			topics[t.Topic] = topics[t.Topic] || t.ReadWhole
		}
	}
	return topics
}

// countTopKey looks whether one key holds a topic up.
func countTopKey(ctx context.Context, s store.Store, t *store.TopicStats, m *observe.Metrics) {
	ctx, cancel := context.WithTimeout(ctx, depthEvery)
	defer cancel()
	i, ok := store.As[store.Inspector](s, store.CanLookup)
	if !ok {
		return
	}
	if top, err := FindTopKey(ctx, i, t); err == nil { // failures of the store are reported elsewhere
		m.TopKey(t.Name, top.Share())
	}
}

// Spilled is the figures of a fallback store. Those with an error are what the process knows by itself.
type Spilled interface {
	Stats(ctx context.Context) (figures.Spill, error)
}

// Spill counts what is in the fallback store of a store, if it has one, every ten seconds until ctx ends.
func Spill(ctx context.Context, s store.Store, m *observe.Metrics, log *slog.Logger) {
	if spilled, ok := store.As[Spilled](s); ok {
		countSpill(ctx, spilled.Stats, m, log)
	}
}

func countSpill(ctx context.Context, count func(context.Context) (figures.Spill, error), m *observe.Metrics,
	log *slog.Logger) {
	c := counting{log: log, what: "messages in the fallback store", at: time.Now()}
	m.SpillCounted(c.at)
	for {
		once, cancel := context.WithTimeout(ctx, depthEvery)
		stats, err := count(once)
		cancel()
		if ctx.Err() != nil {
			return
		}
		m.Spill(stats, err == nil) // what the process knows is true all the same: just then messages may be lost
		if stale := c.note(err); err == nil {
			m.SpillCounted(c.at)
		} else if stale {
			m.SpillUnknown()
		}
		if store.Sleep(ctx, depthEvery) != nil {
			return
		}
	}
}

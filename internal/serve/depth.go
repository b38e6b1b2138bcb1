package serve

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/handler/pipe"
	"github.com/pawl-dev/pawl/internal/operate"
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

// watchDepth counts the messages of topics, for the metrics, on a slow clock.
func (d *Daemon) watchDepth(ctx context.Context) {
	topics, ok := store.As[store.Topics](d.store)
	if !ok {
		return
	}
	began := time.Now()
	c := counting{log: d.Logger, what: "topics", at: began}
	var names []string
	for i := range d.served {
		names = append(names, d.served[i].topic.Name)
	}
	for _, t := range d.host.Topics() {
		names = append(names, t.Name)
	}
	for _, name := range names {
		d.metrics.DepthCounted(name, began)
	}
	for {
		once, cancel := context.WithTimeout(ctx, depthEvery)
		stats, err := topics.Stats(once) // of all: one that nobody works is to be seen
		cancel()
		if ctx.Err() != nil {
			return
		}
		stale := c.note(err)
		for _, name := range names {
			if err == nil {
				d.metrics.DepthCounted(name, c.at)
			}
		}
		if stale {
			d.metrics.DepthUnknown()
		}
		for i := range stats {
			t := &stats[i]
			d.metrics.Paused(t.Name, t.Paused != nil)
			if slices.Contains(names, t.Name) {
				d.countTopKey(ctx, t)
			}
			d.metrics.Depth(t.Name, t.Waiting, t.Delayed, t.Leased, t.Dead, max(0, t.OldestWaiting))
		}
		if store.Sleep(ctx, depthEvery) != nil {
			return
		}
	}
}

// countTopKey looks whether one key holds a topic up.
func (d *Daemon) countTopKey(ctx context.Context, t *store.TopicStats) {
	ctx, cancel := context.WithTimeout(ctx, depthEvery)
	defer cancel()
	i, ok := store.As[store.Inspector](d.store)
	if !ok {
		return
	}
	var top operate.TopKey
	if operate.MayHaveTopKey(t) {
		var err error
		if top, err = operate.FindTopKey(ctx, i, t.Name); err != nil {
			return // failures of the store are reported elsewhere
		}
	}
	d.metrics.TopKey(t.Name, top.Share())
}

// countSpill counts what is in a fallback store, for the metrics, on a slow clock. What count returns with an
// error is what the process knows by itself.
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

// ownMetrics are those that are read from the daemon at every scrape.
func (d *Daemon) ownMetrics() []observe.Metric {
	late := func(set func(value float64, labels ...string)) { // handlers that are near their deadline
		for _, t := range d.dispatcher.Snapshot().Topics {
			set(float64(t.Late), t.Name)
		}
	}
	all := []observe.Metric{observe.ProgramRestarts(d.programRestarts), observe.ProgramLines(d.programLines),
		observe.HandlersLate(late)}
	if d.Dropped != nil {
		all = append(all, observe.LogDropped(d.Dropped))
	}
	return all
}

// programRestarts counts the starts of kept programs beyond the first ones, by topic and
// by how the program before had ended.
func (d *Daemon) programRestarts(set func(value float64, labels ...string)) {
	for topic, s := range d.keptPrograms() {
		set(float64(s.Restarts-s.Crashed-s.Killed), topic, "left")
		set(float64(s.Crashed), topic, "crashed")
		set(float64(s.Killed), topic, "killed")
	}
}

// programLines counts what kept programs wrote to stdout that is not a verdict as it should be.
func (d *Daemon) programLines(set func(value float64, labels ...string)) {
	for topic, s := range d.keptPrograms() {
		set(float64(s.Stray), topic, "log")
		set(float64(s.Bad), topic, "broken")
		set(float64(s.Stale), topic, "stale")
		set(float64(s.Unknown), topic, "unknown_member")
	}
}

func (d *Daemon) keptPrograms() iter.Seq2[string, pipe.Stats] {
	return func(yield func(string, pipe.Stats) bool) {
		for _, c := range d.served {
			if k, ok := c.runner.(*keeper); ok && !yield(k.topic.Name, k.stats()) {
				return
			}
		}
	}
}

// slowKeysEvery is how often the slowest keys are logged.
const slowKeysEvery = time.Minute

// tellSlowKeys logs, until ctx ends, which key of every topic is the slowest: for
// those who look into it, because a key is data.
func tellSlowKeys(ctx context.Context, m *observe.Metrics, l *slog.Logger) {
	for store.Sleep(ctx, slowKeysEvery) == nil {
		if !l.Enabled(ctx, slog.LevelDebug) {
			continue
		}
		for _, k := range m.SlowKeys() {
			l.LogAttrs(ctx, slog.LevelDebug, "slowest key", slog.String("topic", k.Topic), slog.String("key", k.Key),
				slog.Duration("p99", k.P99), slog.Int("attempts", k.Attempts))
		}
	}
}

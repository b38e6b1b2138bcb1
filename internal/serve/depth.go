package serve

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/handler/pipe"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/watch"
	"github.com/pawl-dev/pawl/store"
)

// watchDepth counts the messages of topics, for the metrics.
func (d *Daemon) watchDepth(ctx context.Context) {
	var names []string
	for i := range d.served {
		names = append(names, d.served[i].topic.Name)
	}
	for _, t := range d.host.Topics() {
		names = append(names, t.Name)
	}
	watch.Topics(ctx, d.store, names, d.metrics, d.Logger)
}

// ownMetrics are those that are read from the daemon at every scrape.
func (d *Daemon) ownMetrics() []observe.Metric {
	all := []observe.Metric{observe.ProgramRestarts(d.programRestarts), observe.ProgramLines(d.programLines),
		watch.Late(d.dispatcher)}
	if d.scheduler != nil {
		all = append(all, d.schedules.Metrics(d.scheduler.Overdue)...)
	}
	if d.limitState != nil {
		all = append(all, observe.State(d.stateIgnored, d.stateValuesIgnored)...)
	}
	if d.Tracer != nil {
		all = append(all, observe.TraceSpans(d.Tracer.Spans))
	}
	if d.Logs != nil {
		all = append(all, observe.Logs(d.Logs)...)
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

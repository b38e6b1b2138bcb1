package serve

import (
	"context"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/store"
)

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

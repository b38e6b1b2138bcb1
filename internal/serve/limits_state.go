package serve

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/statesync"
	"github.com/pawl-dev/pawl/store"
)

// limitsTopic is the topic of the state (package statesync) in which operators set limits of all processes, by name.
const limitsTopic = "limits"

// limitSet are the numbers of a limit that an operator has set. They count before those of the file; nil: that of the
// file counts.
type limitSet struct {
	Rate        *float64 `json:"rate"` // a second
	Burst       *int     `json:"burst"`
	Concurrency *int     `json:"concurrency"`
}

// apply sets a limit to the numbers of a file, and to those of an operator before them; nil: as they are. With an
// error, it changes nothing. Only a reload gives it a file.
func (l *limit) apply(file *config.Limit, set *limitSet) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	by, of := cmp.Or(set, &l.set), cmp.Or(file, &l.now)
	if err := l.Set(*cmp.Or(by.Rate, &of.PerSecond), *cmp.Or(by.Burst, &of.Burst),
		*cmp.Or(by.Concurrency, &of.Concurrency)); err != nil {
		return err
	}
	l.set = *by
	if file != nil {
		l.now = *file
	}
	return nil
}

// watch gives limits the numbers that operators set while the process runs.
func (all limits) watch(ctx context.Context, kept *statesync.Topic[limitSet], log *slog.Logger) {
	for v := range kept.Watch(ctx, "") {
		l := all[v.Key]
		if l == nil {
			continue // of another process
		}
		if err := l.apply(nil, &v.Value); err != nil { // the value of a removal is empty
			log.Warn("a limit in the state is not taken", "limit", v.Key, "version", v.Version, "error", err)
			continue
		}
		log.Info("limit set", "limit", v.Key, "version", v.Version, "writer", v.Writer)
	}
}

// openLimits opens the limits in the state; nil where there are no limits, or the store keeps no state.
func (d *Daemon) openLimits() (*statesync.Topic[limitSet], error) {
	if len(d.limits) == 0 || !store.Can(d.store, store.CanState) {
		return nil, nil
	}
	return statesync.New[limitSet](d.store, limitsTopic, statesync.Config{Writer: d.owner(), Logger: d.Logger})
}

// limitFigures are the figures of the limits in the state, for the metrics.
func (d *Daemon) limitFigures(set func(value float64, labels ...string)) {
	f := d.limitState.Figures()
	for why, n := range map[string]int64{"stale": f.Stale, "poisoned": f.Poisoned, "skipped": f.Skipped} {
		set(float64(n), limitsTopic, why)
	}
}

package app

import (
	"context"

	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/spill"
)

// watchSpill counts what is in the fallback store, for the metrics, on a slow clock.
func (d *Daemon) watchSpill(ctx context.Context) {
	s, ok := store.As[*spill.Store](d.store)
	if !ok {
		return
	}
	for {
		once, cancel := context.WithTimeout(ctx, depthEvery)
		stats, err := s.Stats(once)
		cancel()
		if err == nil {
			d.metrics.Spill(formSpill(stats))
		} else if ctx.Err() == nil {
			d.Logger.Debug("the fallback store could not be counted", "error", err)
		}
		if !rest(ctx, depthEvery) {
			return
		}
	}
}

func formSpill(s spill.Stats) observe.SpillFigures {
	f := observe.SpillFigures{LatchedKeys: s.LatchedKeys, Blind: s.Blind}
	for i := range s.Topics {
		t := &s.Topics[i]
		f.Topics = append(f.Topics, observe.SpillTopic{
			Topic: t.Topic, Pending: t.Pending, Dead: t.Dead, OldestPending: t.OldestPending, Down: t.Down,
			Fallback: t.SpilledFailed + t.SpilledUnknown, Diverted: t.Diverted, Lost: t.Lost,
			Compensated: t.Compensated, CompensationsFailed: t.CompensationsFailed,
		})
	}
	return f
}

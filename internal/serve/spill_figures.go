package serve

import (
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/store/spill"
)

// formSpill says it in the words of package observe.
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

package kafka

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// see takes note of what a fetch that brought records says of its partition: up to where
// there are messages, and from where on. The caller holds feedMu.
func (g *group) see(a *assignment, p *kgo.FetchPartition) {
	next, known := a.next(), a.known
	a.known = true
	a.high.Store(p.HighWatermark)
	// What is before the start of the log but comes all the same is not lost; and a gap
	// behind the start is none: compaction and aborted transactions leave some.
	start := min(p.LogStartOffset, p.Records[0].Offset)
	if !known || start <= next {
		return
	}
	lost := a.gate.LeftOut(next, start)
	if lost == 0 {
		return
	}
	g.s.engine.countLost(a, lost)
	g.s.health.note(partitionName(a.topic.Name, a.partition),
		"retention removed %d messages that were not finished: keep the topic for longer, or work faster", lost)
	g.s.cfg.Logger.Error("retention removed messages that were not finished",
		"topic", a.topic.Name, "partition", a.partition, "messages", lost, "read_up_to", next, "goes_on_at", start)
}

// countLost counts messages of a partition that retention removed before they were
// carried out. The figure outlives the assignment.
func (e *engine) countLost(a *assignment, n uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if a.topic.lost == nil {
		a.topic.lost = map[int32]uint64{}
	}
	a.topic.lost[a.partition] += n
}

// lag is how many messages of a partition are not finished, in hand or not, as far as
// the last fetch knew. The caller holds the engine's mu.
func (a *assignment) lag() int64 {
	return int64(a.inHand) + max(0, a.high.Load()-a.gate.Tail())
}

// retention is what was lost to it, by topic and partition.
func (e *engine) retention() (all []RetentionFigures) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, t := range e.topics {
		for p, n := range t.lost {
			all = append(all, RetentionFigures{Topic: name, Partition: p, Messages: n})
		}
	}
	slices.SortFunc(all, func(a, b RetentionFigures) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return all
}

package kafka

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/observe/figures"
)

// The result of [Store.Figures] is declared in package figures, because package observe
// exports it and must not import this one.
type (
	Figures          = figures.Kafka
	Produced         = figures.KafkaProduced
	Spread           = figures.KafkaSpread
	Traffic          = figures.KafkaTraffic
	Commits          = figures.KafkaCommits
	TopicFigures     = figures.KafkaTopic
	PartitionFigures = figures.KafkaPartition
	DeadFigures      = figures.KafkaDead
	RetentionFigures = figures.KafkaRetention
)

// Figures returns the figures. It does no I/O and is quick: it looks at what is in
// memory, at less than a megabyte for a hundred partitions. It may be called at any
// time, also after Close.
func (s *Store) Figures() Figures {
	f := Figures{
		Produced: s.made.figures(),
		Traffic:  s.traffic.figures(),
		Commits:  s.commits.figures(),
		Assigned: s.group.rebalances.Load(), Revoked: s.group.revocations.Load(), Lost: s.group.losses.Load(),
		Dead: s.deadWrites.tally.figures(), DeadFailures: s.deadWrites.failed.Load(), Faults: len(s.Faults()),
	}
	f.Produced.Buffered, f.Produced.BufferedBytes = s.producers.buffered()
	f.Retention = s.engine.retention()
	shares := s.deadWrites.tally.shares(time.Now())
	f.Topics, f.Partitions, f.Overlaps, f.LateAcks = s.engine.allFigures()
	for i := range f.Topics {
		f.Topics[i].TopKeyShare = shares[f.Topics[i].Topic]
	}
	return f
}

func (c *committer) figures() Commits {
	failed := c.failed.Load()
	return Commits{OK: max(c.commits.Load(), failed) - failed, Failed: failed, Bare: c.bare.Load()}
}

// allFigures are the figures of what this process has in hand.
func (e *engine) allFigures() (topics []TopicFigures, partitions []PartitionFigures, overlaps, lateAcks uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	for name, t := range e.topics {
		f := TopicFigures{Topic: name, Consumed: t.taken, Failed: t.failed, Rescued: uint64(t.rescues)}
		for _, a := range t.partitions {
			f.Dying += int64(a.dying)
			partitions = append(partitions, a.figures(now))
		}
		topics = append(topics, f)
	}
	slices.SortFunc(topics, func(a, b TopicFigures) int { return cmp.Compare(a.Topic, b.Topic) })
	slices.SortFunc(partitions, func(a, b PartitionFigures) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return topics, partitions, e.overlaps, e.lateAcks
}

// figures are those of a partition. The caller holds the engine's mu.
func (a *assignment) figures(now time.Time) PartitionFigures {
	f := PartitionFigures{
		Topic: a.topic.Name, Partition: a.partition, InHand: a.inHand, Lag: a.lag(), Backlog: a.gate.Backlog(),
	}
	if first := a.first(); first != nil {
		f.OldestAge = max(0, now.Sub(first.rec.Timestamp))
	}
	if since := a.owedSince(); since != 0 {
		f.CommitLag = max(0, now.Sub(time.Unix(0, since)))
	}
	return f
}

// first returns the first message in hand that is not finished, nil if there is
// none.
func (a *assignment) first() *flight {
	if a.inHand == 0 {
		return nil
	}
	for offset := a.gate.Base(); offset < a.gate.Tail(); offset++ {
		if f := a.find(offset); f != nil {
			return f
		}
	}
	return nil
}

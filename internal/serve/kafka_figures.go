package serve

import (
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// watchKafka exports what a store over Kafka tells of itself, if s is one.
func watchKafka(m *observe.Metrics, s store.Store) {
	if k, ok := store.As[*kafka.Store](s); ok {
		m.WatchKafka(func() observe.KafkaFigures { return formKafka(k.Figures()) })
	}
}

func formKafka(f kafka.Figures) observe.KafkaFigures {
	out := observe.KafkaFigures{
		Stored: f.Produced.Stored, Refused: f.Produced.Refused, Unknown: f.Produced.Unknown,
		Took:     observe.KafkaSpread(f.Produced.Took),
		Buffered: f.Produced.Buffered, BufferedBytes: f.Produced.BufferedBytes, LeftAtFlush: f.Produced.LeftAtFlush,
		RequestFailures: f.Traffic.RequestFailures, ProduceFailures: f.Traffic.ProduceFailures,
		CommitsOK: f.Commits.OK, CommitsFailed: f.Commits.Failed, CommitsBare: f.Commits.Bare,
		Assigned: f.Assigned, Revoked: f.Revoked, Lost: f.Lost, Overlaps: f.Overlaps, LateAcks: f.LateAcks,
		DeadFailures: f.DeadFailures, Faults: f.Faults,
	}
	for _, t := range f.Topics {
		out.Topics = append(out.Topics, observe.KafkaTopic(t))
	}
	for _, p := range f.Partitions {
		out.Partitions = append(out.Partitions, observe.KafkaPartition(p))
	}
	for _, r := range f.Retention {
		out.Retention = append(out.Retention, observe.KafkaRetention(r))
	}
	for _, d := range f.Dead {
		out.Dead = append(out.Dead, observe.KafkaDead(d))
	}
	return out
}

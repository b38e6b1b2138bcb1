package kafka

import (
	"cmp"
	"slices"
	"time"
)

// Figures are what a store counted since it was opened, and how it stands now. All
// are of this process: those of a group are the sum over its members.
type Figures struct {
	Produced Produced
	Traffic  Traffic
	Commits  Commits

	// Assigned, Revoked and Lost count how often the group gave partitions to this
	// process, took them back in good order, and had given them to somebody else
	// already when this process heard of it.
	Assigned, Revoked, Lost uint64
	// Overlaps counts handlers that were still running when their partition was
	// gone; LateAcks the acks that came after that and changed nothing.
	Overlaps, LateAcks uint64

	Topics     []TopicFigures     // by name
	Partitions []PartitionFigures // those that this process has, by topic and number
	Dead       []DeadFigures      // by topic and kind
	Retention  []RetentionFigures // by topic and number, of all that this process ever had
	// DeadFailures counts tries to write a dead letter that failed.
	DeadFailures uint64
	// Faults is how many faults there are now; [Store.Faults] has them.
	Faults int
}

// Produced is what became of records on their way to the brokers: messages, dead
// letters, and changes of the state. Each is counted once, when its outcome is
// known.
type Produced struct {
	Stored  uint64 // by all in-sync replicas
	Refused uint64 // surely not stored
	Unknown uint64 // perhaps stored: the answer did not come
	Took    Spread // of those that were stored, from when they were handed to the client
	// Buffered and BufferedBytes are on their way now.
	Buffered, BufferedBytes int64
	// LeftAtFlush is how many were still on their way when Close gave up waiting for
	// them: perhaps they were stored. It is 0 until then.
	LeftAtFlush int64
}

// Commits counts commits of this process.
type Commits struct {
	OK, Failed uint64
	// Bare ones went without what is finished behind the offset, because the brokers
	// do not take as much metadata.
	Bare uint64
}

// TopicFigures are those of a topic.
type TopicFigures struct {
	Topic    string
	Consumed uint64 // messages that were taken in, those that were taken in again included
	Failed   uint64 // attempts
	Rescued  uint64 // attempts whose lease ended unsettled
	Dying    int64  // dead letters that wait to be written
	// TopKeyShare is the part of the dead letters of the last hour, or of the last
	// 128 if there are more, that are of the same key: from 0 to 1. Those without a
	// key are of none.
	TopKeyShare float64
}

// PartitionFigures are those of a partition that this process has.
type PartitionFigures struct {
	Topic     string
	Partition int32
	InHand    int // messages that were taken in and are not finished
	// Lag is how many messages are not finished, in hand or not, by the end of the log
	// as the last fetch told it.
	Lag int64
	// Backlog is how many messages are finished behind one that is not: the offset
	// that is committed stays before them.
	Backlog int
	// OldestAge is how long ago the first message that is not finished was appended;
	// zero if there is none.
	OldestAge time.Duration
	// CommitLag is for how long the oldest thing has been waiting that should be
	// committed; zero if there is none. Normally it is below the commit interval.
	CommitLag time.Duration
}

// DeadFigures are those of the dead letters of a topic and kind.
type DeadFigures struct {
	Topic, Kind string
	Written     uint64
	LastAt      time.Time // when the last one was written
}

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

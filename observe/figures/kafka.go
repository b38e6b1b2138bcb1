// Package figures has what stores count of themselves beyond the contract: the stores
// fill it in, and package observe exports it. Neither knows the other.
package figures

import "time"

// Kafka is what a store over Kafka counted since it was opened, and how it stands now. All
// are of this process: those of a group are the sum over its members.
type Kafka struct {
	Produced KafkaProduced
	Traffic  KafkaTraffic
	Commits  KafkaCommits

	// Assigned, Revoked and Lost count how often the group gave partitions to this
	// process, took them back in good order, and had given them to somebody else
	// already when this process heard of it.
	Assigned, Revoked, Lost uint64
	// Overlaps counts handlers that were still running when their partition was
	// gone; LateAcks the acks that came after that and changed nothing.
	Overlaps, LateAcks uint64

	Topics     []KafkaTopic     // by name
	Partitions []KafkaPartition // those that this process has, by topic and number
	Dead       []KafkaDead      // by topic and kind
	Retention  []KafkaRetention // by topic and number, of all that this process ever had
	// DeadFailures counts tries to write a dead letter that failed.
	DeadFailures uint64
	// Faults is how many faults there are now; the store says which.
	Faults int
}

// KafkaProduced is what became of records on their way to the brokers: messages, dead
// letters, and changes of the state. Each is counted once, when its outcome is
// known.
type KafkaProduced struct {
	Stored  uint64      // by all in-sync replicas
	Refused uint64      // surely not stored
	Unknown uint64      // perhaps stored: the answer did not come
	Took    KafkaSpread // of those that were stored, from when they were handed to the client
	// Buffered and BufferedBytes are on their way now.
	Buffered, BufferedBytes int64
	// LeftAtFlush is how many were still on their way when Close gave up waiting for
	// them: perhaps they were stored. It is 0 until then.
	LeftAtFlush int64
}

// KafkaCommits counts commits of this process.
type KafkaCommits struct {
	OK, Failed uint64
	// Bare ones went without what is finished behind the offset, because the brokers
	// do not take as much metadata.
	Bare uint64
}

// KafkaTopic is what was counted of a topic.
type KafkaTopic struct {
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

// KafkaPartition is what was counted of a partition that this process has.
type KafkaPartition struct {
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

// KafkaDead is what was counted of the dead letters of a topic and kind.
type KafkaDead struct {
	Topic, Kind string
	Written     uint64
	LastAt      time.Time // when the last one was written
}

// KafkaSpread is how durations are spread.
type KafkaSpread struct {
	// Bounds are upper bounds, in seconds; Counts says how many durations were not
	// above each of them and above the one before, and last how many were above all.
	Bounds []float64
	Counts []uint64
	Sum    time.Duration
}

// KafkaTraffic is what went between this process and the brokers.
type KafkaTraffic struct {
	Connects, ConnectFailures, Disconnects uint64
	Requests                               uint64
	// RequestFailures are requests that were not answered; ProduceFailures those of
	// them that were to store records. The client repeats them: a record is not lost
	// by it.
	RequestFailures, ProduceFailures uint64
	BytesWritten, BytesRead          uint64
	Throttled                        time.Duration // for how long the brokers asked to wait, in total
}

// KafkaRetention is how many messages of a partition retention removed before this
// process could read them.
type KafkaRetention struct {
	Topic     string
	Partition int32
	Messages  uint64 // that were not finished
}

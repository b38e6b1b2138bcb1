// Package figures has the figures of stores that go beyond the contract: the stores
// fill them in, and package observe exports them. Neither imports the other.
package figures

import "time"

// Kafka has the figures of a Kafka store: totals since it was opened, and its current
// state. All are of this process: those of a group are the sum over its members.
type Kafka struct {
	Produced KafkaProduced
	Traffic  KafkaTraffic
	Commits  KafkaCommits

	// Assigned, Revoked and Lost count partitions that the group gave to this process,
	// took back in an orderly way, and had already given to another process when this
	// one learned of it.
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

// KafkaProduced has the outcomes of produced records: messages, dead letters, and
// changes of the state. Each is counted once, when its outcome is known.
type KafkaProduced struct {
	Stored  uint64      // by all in-sync replicas
	Refused uint64      // certainly not stored
	Unknown uint64      // perhaps stored: there was no answer
	Took    KafkaSpread // of those that were stored, from when they were handed to the client
	// Buffered and BufferedBytes are on their way now.
	Buffered, BufferedBytes int64
	// LeftAtFlush is how many were still on their way when Close gave up waiting for
	// them: they may have been stored. It is 0 until then.
	LeftAtFlush int64
}

// KafkaCommits counts commits of this process.
type KafkaCommits struct {
	OK, Failed uint64
	// Bare commits left out what is finished beyond the offset, because the brokers do
	// not accept that much metadata.
	Bare uint64
}

// KafkaTopic has the figures of a topic.
type KafkaTopic struct {
	Topic    string
	Consumed uint64 // messages that were taken in, those that were taken in again included
	Failed   uint64 // attempts
	Rescued  uint64 // attempts whose lease ended unsettled
	Dying    int64  // dead letters that wait to be written
	// TopKeyShare is the share of the most frequent key among the dead letters of the
	// last hour, or among the last 128 if there are more: from 0 to 1. Letters without
	// a key belong to none.
	TopKeyShare float64
}

// KafkaPartition has the figures of a partition that is assigned to this process.
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

// KafkaDead has the figures of the dead letters of a topic and kind.
type KafkaDead struct {
	Topic, Kind string
	Written     uint64
	LastAt      time.Time // when the last one was written
}

// KafkaSpread is a histogram of durations.
type KafkaSpread struct {
	// Bounds are upper bounds, in seconds; Counts says how many durations were not
	// above each of them and above the one before, and last how many were above all.
	Bounds []float64
	Counts []uint64
	Sum    time.Duration
}

// KafkaTraffic is the traffic between this process and the brokers.
type KafkaTraffic struct {
	Connects, ConnectFailures, Disconnects uint64
	Requests                               uint64
	// RequestFailures are requests that were not answered; ProduceFailures those of
	// them that were to store records. The client repeats them, so no record is lost.
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

package observe

import "time"

// KafkaFigures are what a store over Kafka tells of itself. It has them in memory:
// they are asked for at every scrape. Totals are since the store was opened.
type KafkaFigures struct {
	// Records on their way to the brokers, by what became of them.
	Stored, Refused, Unknown uint64
	// Took is how long the stored ones took.
	Took KafkaSpread
	// Buffered and BufferedBytes are on their way now. LeftAtFlush were still when the
	// store was closed.
	Buffered, BufferedBytes, LeftAtFlush int64
	// RequestFailures and ProduceFailures are requests that were not answered: of any
	// kind, and those to store records among them.
	RequestFailures, ProduceFailures uint64

	CommitsOK, CommitsFailed, CommitsBare uint64
	Assigned, Revoked, Lost               uint64
	Overlaps, LateAcks                    uint64
	DeadFailures                          uint64
	Faults                                int

	Topics     []KafkaTopic
	Partitions []KafkaPartition
	Dead       []KafkaDead
	Retention  []KafkaRetention
}

// KafkaSpread is how durations are spread. Bounds are upper bounds in seconds, Counts
// how many were up to each of them and above the one before; the last one, which has
// no bound, is how many were above all.
type KafkaSpread struct {
	Bounds []float64
	Counts []uint64
	Sum    time.Duration
}

// KafkaTopic are the figures of a topic.
type KafkaTopic struct {
	Topic                     string
	Consumed, Failed, Rescued uint64
	Dying                     int64
	TopKeyShare               float64 // of the dead letters, from 0 to 1
}

// KafkaPartition are the figures of a partition that this process has.
type KafkaPartition struct {
	Topic                string
	Partition            int32
	InHand               int
	Lag                  int64
	Backlog              int
	OldestAge, CommitLag time.Duration
}

// KafkaRetention is how many messages of a partition retention took before they were
// finished.
type KafkaRetention struct {
	Topic     string
	Partition int32
	Messages  uint64
}

// KafkaDead are the figures of dead letters of a topic and kind.
type KafkaDead struct {
	Topic, Kind string
	Written     uint64
	LastAt      time.Time
}

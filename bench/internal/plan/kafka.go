package plan

import "time"

// Kafka. What all arms have in common.
const (
	KafkaPartitions = 12
	KafkaKeys       = 10_000
	KafkaBytes      = 256 // of a record that is consumed
	KafkaAtOnce     = 128 // records carried out at once, at most

	// The fetches of every arm, Java's included.
	FetchMinBytes       = 1 << 10
	FetchWait           = 500 * time.Millisecond
	FetchBytes          = 32 << 20 // of an answer
	FetchPartitionBytes = 8 << 20

	CommitEvery = time.Second // of arms that commit by the clock
)

// Kafka. What one arm has.
const (
	PawlLoops     = 2    // goroutines of pawl-store
	PawlClaim     = 2000 // messages of its claims, at most
	PawlRun       = 64   // of one key in it, at most
	PawlBatchSize = 100
	PawlBatches   = 8 // at once

	// SleepersWork is about what a dispatcher spends on a record.
	SleepersWork = 3 * time.Microsecond

	ParallelPoll = 500 // max.poll.records of Parallel Consumer: the default
)

// Producing.
const (
	ProduceBytes     = 1 << 10
	ProduceCallers   = 8      // calls of append at once, in a burst
	FillBatch        = 20_000 // records of a call that fills a topic
	BurstLinger      = 5 * time.Millisecond
	ProduceBatchSize = 1 << 20
	ProduceBuffer    = 100 << 20

	PacedTick   = time.Millisecond // what is due in it is sent one by one
	PacedWarmUp = 3 * time.Second  // not counted in percentiles
)

// Consuming. Every arm reads a topic to its end; those that would take minutes have a
// shorter one with the same records.
const (
	WarmUpRead           = 100_000 // of the JVM, before its clock starts
	parallelConsumerRead = 500_000
)

func kafkaWorks(s Scale) []Work {
	working := []string{Sleepers, SleepersBusy, PerPartition, PawlDispatch, ParallelConsumer}
	slow := pick(s, 30_000, 60_000)
	works := []Work{
		{Suite: Kafka, Name: "none", Kind: Consume, N: pick(s, 2_000_000, 5_000_000),
			Arms: []string{Raw, PerPartition, PawlStore, PawlDispatch, PawlBatch, ParallelConsumer},
			Doc:  "256 B, 10k keys, 12 partitions, no work: from the first record to the last"},
		{Suite: Kafka, Name: "1ms", Kind: Consume, N: pick(s, 200_000, 500_000), Takes: time.Millisecond,
			Arms: working, Doc: "the same, 1 ms of sleep a record, 128 at once"},
		{Suite: Kafka, Name: "10ms", Kind: Consume, N: slow, Takes: 10 * time.Millisecond,
			Arms: working, Doc: "the same, 10 ms"},
		{Suite: Kafka, Name: "10ms-io", Kind: Consume, N: slow, Takes: 10 * time.Millisecond, Answered: true, Arms: working,
			Doc: "the same, 10 ms until a descriptor can be read, as in waiting for an answer; Java sleeps"},
		{Suite: KafkaProduce, Name: "burst", Kind: Append, N: pick(s, 200_000, 500_000), Producers: ProduceCallers,
			Arms: []string{Raw, Pawl}, Doc: "1 KiB, 10k keys, all in-sync replicas, as fast as it goes"},
		{Suite: KafkaProduce, Name: "paced-5000", Kind: Paced, Rate: 5000, For: pick(s, 6*time.Second, 10*time.Second),
			Arms: []string{Raw, Pawl},
			Doc:  "the same, 5,000/s, each by itself, no linger: from when it was to be sent to its acknowledgement"},
	}
	for i := range works {
		works[i].Keys, works[i].Bytes = KafkaKeys, KafkaBytes
		if works[i].Suite == KafkaProduce {
			works[i].Bytes = ProduceBytes
		}
	}
	return works
}

// Filling is the work that writes a topic of n records, which are the first ones of a longer topic.
func Filling(n int) Work {
	return Work{Suite: KafkaProduce, Kind: Append, N: n, Keys: KafkaKeys, Bytes: KafkaBytes, Batch: FillBatch, Producers: 1}
}

package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Suites.
const (
	Postgres     = "postgres"
	SQLite       = "sqlite"
	Kafka        = "kafka"         // consume
	KafkaProduce = "kafka-produce" // append
)

// Arms. Pawl is the one the others are compared with.
const (
	Pawl             = "pawl"
	River            = "river"
	RiverInsertMany  = "river-insertmany"
	RiverDefaults    = "river-defaults"
	Goqite           = "goqite"
	GoqiteDefaults   = "goqite-defaults"
	Backlite         = "backlite"
	BackliteDefaults = "backlite-defaults"

	Raw              = "raw"                     // franz-go alone
	PerPartition     = "goroutine-per-partition" // franz-go as people use it
	Sleepers         = "sleepers"                // goroutines that do the work and nothing else: no broker, no order
	SleepersBusy     = "sleepers-busy"           // the same, that calculate a little before
	PawlStore        = "pawl-store"              // Claim and Settle in a loop
	PawlDispatch     = "pawl-dispatch"           // a handler for each record
	PawlBatch        = "pawl-batch"              // a batch handler
	ParallelConsumer = "parallel-consumer"       // Confluent's, in Java
)

// Kind is how a work is driven.
type Kind string

// The kinds.
const (
	Append Kind = "append" // insert only
	Burn   Kind = "burn"   // inserted before, then worked until nothing is left
	Steady Kind = "steady" // open loop at a fixed rate
	Hold   Kind = "hold"   // inserted and worked at once, the backlog held at a depth
	Lone   Kind = "lone"   // one job at a time into an idle queue
	Drill  Kind = "drill"  // open loop at a fixed rate, with a pinned snapshot in the middle three fifths

	Consume Kind = "consume" // a topic that is there, read from its start to its end
	Paced   Kind = "paced"   // records produced at a fixed rate, each by itself
)

// Work is one thing to measure.
type Work struct {
	Suite, Name string
	Kind        Kind
	Doc         string
	Arms        []string
	N           int           // jobs (Append, Burn, Lone)
	Keys        int           // distinct keys; 0: unordered
	Bytes       int           // of a job on Kafka; elsewhere PayloadBytes
	Batch       int           // jobs of a call of append; 0: AppendBatch
	Producers   int           // goroutines that append; 0: AppendProducers, or one that keeps the order of keys
	Rate        int           // jobs a second (Steady, Drill, Paced)
	For         time.Duration // Steady, Hold, Drill, Paced
	Depth       int           // jobs waiting (Hold)
	Pinned      bool          // another connection holds a REPEATABLE READ snapshot throughout
	Account     bool          // count WAL, dead tuples and commits over what is timed
	Takes       time.Duration // a record's work (Consume)
	FullOnly    bool          // quick leaves it out
	NamedOnly   bool          // it is run only where --work names it
	Answered    bool          // it waits as for an answer from elsewhere, instead of sleeping
}

// IsPawl tells Pawl's arms from its peers.
func IsPawl(arm string) bool { return arm == Pawl || strings.HasPrefix(arm, Pawl+"-") }

// OnKafka reports whether a suite needs brokers.
func OnKafka(suite string) bool { return suite == Kafka || suite == KafkaProduce }

// Scale is quick or full.
type Scale string

// The scales.
const (
	Quick Scale = "quick"
	Full  Scale = "full"
)

// Rounds of a scale.
func (s Scale) Rounds() int { return pick(s, QuickRounds, FullRounds) }

// Works returns what a scale measures, in the order in which it is run.
func Works(s Scale) []Work {
	all := slices.Concat(postgresWorks(s), sqliteWorks(s), kafkaWorks(s))
	return slices.DeleteFunc(all, func(w Work) bool { return w.FullOnly && s != Full })
}

// Find returns a work with the sizes it has for an arm.
func Find(s Scale, suite, name, arm string) (Work, error) {
	for _, w := range Works(s) {
		if w.Suite == suite && w.Name == name && slices.Contains(w.Arms, arm) {
			return w.sized(arm), nil
		}
	}
	return Work{}, fmt.Errorf("suite %s has no work %q for the arm %q at scale %s", suite, name, arm, s)
}

// sized cuts a work for the arms that would take minutes.
func (w Work) sized(arm string) Work {
	brief, ok := defaultsBurn[arm]
	switch {
	case w.Kind == Burn && ok:
		w.N = brief
	case w.Kind == Consume && w.Takes == 0 && arm == ParallelConsumer:
		w.N = min(w.N, parallelConsumerRead)
	case w.Kind == Consume && w.Takes > 0 && arm == PerPartition:
		w.N = min(w.N, w.N*KafkaPartitions/KafkaAtOnce/100*100)
	}
	return w
}

// Sizes returns the numbers of records that the arms of a work read, each once.
func (w Work) Sizes(arm string) (sizes []int) {
	for _, a := range w.Arms {
		if n := w.sized(a).N; (arm == "" || arm == a) && !slices.Contains(sizes, n) {
			sizes = append(sizes, n)
		}
	}
	return sizes
}

func postgresWorks(s Scale) []Work {
	const few, many = 10_000, 1_000_000 // keys, or jobs waiting
	both := []string{Pawl, River}
	inserters := pick(s, both, []string{Pawl, River, RiverInsertMany})
	plain := pick(s, both, []string{Pawl, River, RiverDefaults})
	burn, steady := pick(s, 50_000, 100_000), pick(s, 4*time.Second, 20*time.Second)
	works := []Work{
		{Name: "append", Kind: Append, N: pick(s, 100_000, 300_000), Account: true,
			Arms: inserters, Doc: "insert only"},
		{Name: "burn", Kind: Burn, N: burn, Account: true, Arms: plain,
			Doc: "inserted before, then worked off, unordered"},
		{Name: "burn-keys-10k", Kind: Burn, N: burn, Keys: few, Account: true, Arms: both,
			Doc: "the same, in order per key, 10k keys; River has no order: its figure is the unordered one"},
		{Name: "burn-keys-1m", Kind: Burn, N: burn, Keys: many, Account: true, Arms: both,
			Doc: "the same, 1M keys; River unordered"},
		{Name: "steady-2000", Kind: Steady, Rate: 2000, For: steady, Account: true, Arms: both,
			Doc: "2,000 jobs/s, open loop: from append returned to handler started"},
		{Name: "churn-pinned", Kind: Hold, Depth: 20_000, For: pick(s, 10*time.Second, 60*time.Second), Pinned: true, Arms: both,
			Doc: "inserted and worked at once under a pinned snapshot, 5 s slices"},
		{Name: "pinned-reader", NamedOnly: true, Kind: Drill, Rate: 2000, For: pick(s, 50*time.Second, 50*time.Minute),
			Arms: both, Doc: "2,000 jobs/s; after a fifth of the time a reader idles in a transaction, for three fifths"},
		{Name: "steady-500", FullOnly: true, Kind: Steady, Rate: 500, For: steady, Account: true, Arms: plain,
			Doc: "500 jobs/s, open loop, which River with defaults can follow"},
		{Name: "depth-10k", FullOnly: true, Kind: Hold, Depth: few, For: 10 * time.Second, Arms: both,
			Doc: "inserted and worked at once, 10k waiting all the time"},
		{Name: "depth-1m", FullOnly: true, Kind: Hold, Depth: many, For: 10 * time.Second, Arms: both,
			Doc: "the same, 1M waiting"},
		{Name: "depth-1m-keys-100k", FullOnly: true, Kind: Hold, Depth: many, Keys: 100_000, For: 10 * time.Second,
			Arms: both, Doc: "the same, 1M waiting, in order per key, 100k keys; River unordered"},
	}
	for i := range works {
		works[i].Suite = Postgres
	}
	return works
}

func sqliteWorks(s Scale) []Work {
	arms := pick(s, []string{Pawl, Goqite, Backlite}, []string{Pawl, Goqite, GoqiteDefaults, Backlite, BackliteDefaults})
	return []Work{
		{Suite: SQLite, Name: "burn", Kind: Burn, N: pick(s, 4_000, 20_000), Arms: arms,
			Doc: "inserted before, then worked off, synchronous=FULL"},
		{Suite: SQLite, Name: "lone", Kind: Lone, N: pick(s, 40, 300), Arms: arms,
			Doc: "one job into an idle queue: from append returned to handler started, synchronous=FULL"},
	}
}

func pick[T any](s Scale, quick, full T) T {
	if s == Full {
		return full
	}
	return quick
}

// Package plan says what is measured: the works, their sizes, the arms and
// their settings. Every number that shapes a result is here: sizes in the tables of
// works, everything else in settings.go and kafka.go.
package plan

import "time"

// The same for every arm.
const (
	PayloadBytes    = 84   // of one job
	AppendBatch     = 1000 // jobs per append or insert call
	AppendProducers = 2    // goroutines that append; keyed jobs: one, to keep their order
	PoolConns       = 20   // PostgreSQL connections that an arm may open
	SQLiteSync      = "FULL"
	Seed            = 1 // of the keys; the round is added

	// A burn ends when every job was handled and no more than this share is
	// still to be settled durably: who settles in batches on a timer (River: 50
	// to 250 ms) must not pay for its last timer in a run of a second.
	TailShare = 0.002
	TailPoll  = 5 * time.Millisecond

	SteadyTick   = 10 * time.Millisecond // the open-loop producer appends rate × tick jobs a tick
	SteadyWarmUp = time.Second           // jobs of the first second count in no percentile

	Slice       = 5 * time.Second // of the rates that show flat or falling
	DrillSlices = 50              // of a drill: minutes of the full one

	// Between the start of a lone job's handler and the next append lies a random
	// time that is longer than any arm's poll interval, so that no poller meets it
	// at the same phase every time.
	LoneGapMin, LoneGapMax = 20 * time.Millisecond, 120 * time.Millisecond
)

// Pawl. Concurrency is the number of handlers that may run at once.
const (
	PawlConcurrency = 1000
)

// River, tuned as its own riverbench is, but with 1,000 workers. Its ceiling
// is workers ÷ cooldown: 500,000/s here, 1,000/s as its documentation starts
// one (100 workers, cooldown 100 ms, poll 1 s).
const (
	RiverWorkers        = 1000
	RiverCooldown       = 2 * time.Millisecond
	RiverPoll           = 20 * time.Millisecond
	RiverDefaultWorkers = 100
)

// goqite and backlite, each as it comes and as fast as it gets.
const (
	GoqitePoll        = time.Millisecond // default 100 ms
	GoqiteLimit       = 100              // default GOMAXPROCS; at the limit the runner sleeps a poll interval
	BackliteWorkers   = 1000             // a fetch takes as many as workers are free; none free: it sleeps 100 ms
	BackliteExamples  = 10               // workers in its README
	BackliteReleaseIn = 10 * time.Minute // as in its README
)

// Rounds. Quick must stay under five minutes; full takes as long as it takes.
const (
	QuickRounds = 3
	FullRounds  = 5
)

// Burns of arms with defaults, whose ceiling is a sleep: some ten seconds each.
var defaultsBurn = map[string]int{RiverDefaults: 10_000, GoqiteDefaults: 300, BackliteDefaults: 1_000}

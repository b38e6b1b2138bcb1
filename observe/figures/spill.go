package figures

import "time"

// Spill is what a store that falls back to another one counted. Totals are those of
// this process.
type Spill struct {
	// Topics are those with a row or a total, or that the primary store once did not
	// take, by name.
	Topics []SpillTopic
	// LatchedKeys is how many keys this process sends behind their rows.
	LatchedKeys int
	// ActiveSince is when the first of them was latched; zero: none is.
	ActiveSince time.Time
	// Blind counts appends that could not learn what other processes have spilled,
	// because the fallback store did not answer.
	Blind int64
}

// SpillTopic is what was counted of a topic.
type SpillTopic struct {
	Topic string
	// Pending rows wait in the fallback store, those of other processes included;
	// Dead ones wait for an operator. OldestPending is how long the oldest has been
	// waiting.
	Pending, Dead int64
	OldestPending time.Duration
	// Down: the primary store takes nothing of the topic now, because of Why.
	Down bool
	Why  error
	Totals
}

// Totals are what became of the messages of a topic, counted by this process.
type Totals struct {
	// Spilled messages went to the fallback store: surely not in the primary store,
	// or perhaps. Diverted ones went to the dead-letter route; lost ones nowhere.
	SpilledFailed, SpilledUnknown, Diverted, Lost int64
	// Compensated rows are in the primary store again; Proven are those of them that
	// it turned out to have had. CompensationsFailed counts tries in vain, Buried
	// rows that became dead letters.
	Compensated, Proven, CompensationsFailed, Buried int64
}

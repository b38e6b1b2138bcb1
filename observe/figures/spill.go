package figures

import "time"

// Spill has the figures of a store with a fallback. Totals are those of this process.
type Spill struct {
	// Topics are those with a row or a total, or that the primary store once did not
	// take, by name.
	Topics []SpillTopic
	// LatchedKeys is how many keys this process sends behind their rows.
	LatchedKeys int
	// Blind counts appends that could not find out what other processes have spilled,
	// because the fallback store did not answer.
	Blind int64
}

// SpillTopic has the figures of a topic.
type SpillTopic struct {
	Topic string
	// Pending rows wait in the fallback store, those of other processes included;
	// Dead ones wait for an operator. OldestPending is how long the oldest has been
	// waiting.
	Pending, Dead int64
	OldestPending time.Duration
	// Down: the primary store currently accepts nothing of the topic, because of Why.
	Down bool
	Why  error
	Totals
}

// Totals of the messages of a topic, counted by this process.
type Totals struct {
	// Spilled messages went to the fallback store: certainly not stored in the primary
	// store, or perhaps. Diverted ones went to the dead-letter route; lost ones
	// nowhere.
	SpilledFailed, SpilledUnknown, Diverted, Lost int64
	// Compensated rows were brought back to the primary store; Proven are those that it
	// turned out to have had already. CompensationsFailed counts failed tries, Buried
	// rows that became dead letters.
	Compensated, Proven, CompensationsFailed, Buried int64
}

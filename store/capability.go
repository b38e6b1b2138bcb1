package store

import (
	"fmt"

	"github.com/pawl-dev/pawl"
)

// Capability names a feature that not every backend has.
type Capability string

// The capabilities.
const (
	CanEmitAtomic  Capability = "EmitAtomic"           // emitted messages and the ack are one step
	CanExclusive   Capability = "ExclusiveLease"       // at most one live lease, across processes
	CanDeadline    Capability = "CrossProcessDeadline" // lease end and hard deadline hold when the holder hangs or died
	CanPriority    Capability = "Priority"             // rank by priority and ageing
	CanDelay       Capability = "Delay"                // delay, retry after, hold, outside the process
	CanUnique      Capability = "Unique"               // unique keys, and one message per id
	CanAttempts    Capability = "DurableAttempts"      // attempts, rescues and history survive the process
	CanLookup      Capability = "Lookup"               // get, list, cancel by id
	CanTxAppend    Capability = "TxAppend"             // append in the caller's transaction
	CanProcesses   Capability = "Processes"            // several processes share it
	CanAnyProcess  Capability = "AnyProcess"           // any process claims, extends and settles any message
	CanSurvive     Capability = "Durable"              // what Append returned survives a crash of the process or server
	CanTopics      Capability = "Topics"               // versioned settings, pause
	CanRemove      Capability = "RemoveTopics"         // topics that are empty are removed
	CanFigures     Capability = "Figures"              // figures of topics that add up
	CanDeadLetters Capability = "DeadLetters"          // list, replay, purge, edit, import
	CanResolve     Capability = "Resolve"              // replay that keeps attempts, letters marked as resolved
	CanRepeatBatch Capability = "RepeatBatch"          // batch ids
	CanWake        Capability = "Wake"                 // wake-up by append, without polling
	CanState       Capability = "State"                // versioned values by key
	CanMarks       Capability = "Marks"                // many values by key, in scopes that are forgotten as a whole
	CanPace        Capability = "Pace"                 // rates by key that processes share
	CanResults     Capability = "Results"              // a topic is read in the order of appending, by a cursor
	CanBound       Capability = "Bound"                // topics with a maximum of waiting messages
)

// AllCapabilities lists them in the order of tables.
var AllCapabilities = []Capability{
	CanSurvive, CanProcesses, CanAnyProcess, CanExclusive, CanDeadline, CanPriority, CanDelay,
	CanUnique, CanEmitAtomic, CanAttempts, CanDeadLetters, CanResolve, CanLookup, CanTopics, CanRemove,
	CanFigures, CanTxAppend, CanRepeatBatch, CanWake, CanState, CanMarks, CanPace, CanResults, CanBound,
}

// Support says how a backend keeps a capability. The zero value refuses it.
type Support struct {
	Kept bool
	// Note says how the backend deviates, or why it refuses.
	Note string
}

// Capabilities is what a backend declares. A capability that is missing is
// refused.
type Capabilities map[Capability]Support

// Has reports whether c is kept, fully or with a deviation.
func (cs Capabilities) Has(c Capability) bool { return cs[c].Kept }

// Description is what a backend says of itself, for `pawl stores` and docs.
type Description struct {
	Name         string // sqlite, postgres …
	URL          string // the form of its URL
	Durability   string // what "durable on return" means here, by setting
	Capabilities Capabilities
	// Refuses returns why this store refuses a message that the contract allows, as far as
	// that is known without I/O: the error that its receipt would have. Nil: it refuses none.
	Refuses func(*pawl.Message) error
}

// Describer is implemented by every store. A decorator that changes messages, or stores
// them elsewhere, describes what it refuses as it will store them.
type Describer interface{ Describe() Description }

// Fit returns, without any I/O, why s will certainly refuse a message: because no store
// accepts it, or because this one does not. A caller that sends many messages can stop
// before the first that would be refused, and not only when later ones are already stored.
func Fit(s Store, m *pawl.Message) error {
	if err := m.Validate(); err != nil {
		return err
	}
	if refuses := Describe(s).Refuses; refuses != nil {
		return refuses(m)
	}
	return nil
}

// Describe returns the description of s; one that does not describe itself keeps every
// capability.
func Describe(s Store) Description {
	if d, described := As[Describer](s); described {
		return d.Describe()
	}
	d := Description{Capabilities: Capabilities{}}
	for _, c := range AllCapabilities {
		d.Capabilities[c] = Support{Kept: true}
	}
	return d
}

// Can reports whether s keeps a capability.
func Can(s Store, c Capability) bool { return Describe(s).Capabilities.Has(c) }

// Need is the error of an operation on a store that does not keep a capability.
func Need(s Store, c Capability, op string) error {
	if Can(s, c) {
		return nil
	}
	return &Error{Op: op, Code: ErrUnsupported, Err: fmt.Errorf("it needs %s", c)}
}

package dispatch

import (
	"time"

	"github.com/pawl-dev/pawl"
)

// Observer receives figures of deliveries, batch by batch. It is called concurrently
// and must not block; it must not keep slices after it returns. Topics, kinds, rules
// and operations are bounded: they come from the configuration and the code.
// [Observers] makes one of several.
type Observer interface {
	// StoreCall: a call of the store ended. op is claim, extend, settle or solitary; items
	// is how many it was given, or returned.
	StoreCall(op string, took time.Duration, items int, err error)
	// Claimed: deliveries came. waited holds how long each first attempt among them had
	// been visible.
	Claimed(topic string, deliveries int, waited []time.Duration)
	// Ran: handlers ended; one duration for each delivery, its share of a batch.
	Ran(topic string, took []time.Duration)
	// Settled: the store accepted verdicts (ack, retry, dead, release). done holds the times
	// from visible to acked of first attempts that were acked.
	Settled(topic, verdict string, deliveries int, done []time.Duration)
	// Refused: verdicts that changed nothing, or were not even tried because this
	// process knew that the lease had ended. reason is lease_lost or invalid.
	Refused(topic, reason string, deliveries int)
	// Decided: the policy decided about a failure, of a delivery or of a part of
	// one that a handler asked about. degrade is none unless it is ignored.
	Decided(topic, domain, typ, phase string, kind pawl.Kind, rule, action, alert, degrade string)
	// Load: the state of a topic, about once a second while something is held.
	Load(topic string, running, waiting, zombies, slots int)
}

// KeyObserver is an [Observer] that also receives keys.
type KeyObserver interface {
	// RanKeys: as [Observer.Ran], with the key of each duration; nil is a message
	// without one. Keys must not be kept, nor changed.
	RanKeys(topic string, keys [][]byte, took []time.Duration)
}

// ReleaseObserver is an [Observer] that also hears of deliveries that handlers give back.
type ReleaseObserver interface {
	// GivenBack: a handler returned pawl.Release. Deliveries that the runtime itself gives
	// back, in a drain or to let a better one go first, are in [Observer.Settled] only.
	GivenBack(topic string, deliveries int)
}

// RetryObserver is an [Observer] that is also told of messages that have failed often.
type RetryObserver interface {
	// RetriedOften: a delivery is retried that has failed ten times or more.
	RetriedOften(topic string)
}

// BackObserver is an [Observer] that is also told when the store goes back.
type BackObserver interface {
	// StoreWentBack: the store turned out to be an older copy of itself.
	StoreWentBack()
}

// LimitObserver is an [Observer] that also receives the state of limiters. Names of
// limits are bounded: they come from the configuration.
type LimitObserver interface {
	// LimitLoad reports the state of a limiter, together with that of its topic: how many calls run, how many
	// buckets (one a key) it has, and its rate. Of an adaptive limiter, window is how many calls its buckets allow at
	// once, all together, and least the window of the smallest bucket that keeps deliveries back. heldBack counts the
	// deliveries that it has kept from beginning so far.
	LimitLoad(limit string, running, buckets int, rate, window, least float64, heldBack int64)
}

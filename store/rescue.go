package store

import (
	"context"
	"slices"
	"time"
)

// How rescues count; see the package comment.
const (
	SuspectAfter  = 2  // rescues that make a message a suspect
	SolitaryAfter = 4  // rescues after which it is carried out only alone
	LonelyRescues = 3  // rescues of leases claimed alone that make a dead letter
	MaxSuspects   = 32 // total weight of the suspects that a process may hold at once
	LastDeaths    = 3  // deaths beside other work that are remembered per topic
	DeathsWithin  = 10 // lengths of a lease within which LastDeaths deaths keep a topic's messages from being run alone

	MaxPutOff = 30 * time.Minute // for how long after its last rescue they keep a message from that
)

// Weight is how much of [Lease.Suspects] a message with that many rescues takes. A
// message that is to be carried out alone is too heavy for any claim except one with
// the AllSuspects of package backend.
func Weight(rescues int) int {
	switch {
	case rescues < SuspectAfter:
		return 0
	case rescues == SuspectAfter:
		return 1
	case rescues < SolitaryAfter:
		return 8
	default:
		return 1 << 20
	}
}

// Solitary reports whether a message with that many rescues is carried out alone.
func Solitary(rescues int) bool { return rescues >= SolitaryAfter }

// Death is the end of a process that held messages of a topic: its lease ended
// unsettled, and had not been claimed alone.
type Death struct {
	Owner string
	At    time.Time
}

// Deaths are the last deaths of a topic beside other work, one for each owner, the oldest
// first; [LastDeaths] at most.
type Deaths []Death

// Add returns the deaths with one added. Several leases of one owner are one death.
func (d Deaths) Add(owner string, at time.Time) Deaths {
	d = slices.DeleteFunc(slices.Clone(d), func(x Death) bool {
		if x.Owner == owner && x.At.After(at) {
			at = x.At
		}
		return x.Owner == owner
	})
	d = append(d, Death{owner, at})
	slices.SortStableFunc(d, func(a, b Death) int { return a.At.Compare(b.At) })
	return d[max(len(d)-LastDeaths, 0):]
}

// PutOff reports whether a message of the topic, last rescued then, may not be carried out alone
// now, for claims with leases of that length, and until when if nothing else dies.
func (d Deaths) PutOff(now time.Time, lease time.Duration, rescued time.Time) (until time.Time, _ bool) {
	if len(d) < LastDeaths {
		return time.Time{}, false
	}
	until = d[len(d)-LastDeaths].At.Add(DeathsWithin * lease)
	if latest := rescued.Add(MaxPutOff); latest.Before(until) {
		until = latest
	}
	return until, until.After(now)
}

// Suspected is the optional interface of a store that can tell which topics have
// messages waiting to be carried out alone. Without it, a dispatcher that is always busy
// would not know when to make room for them.
type Suspected interface {
	// Solitary returns the first of the topics in which a message waits that a claim of
	// a lease of that length brings only with [Lease.Alone]; empty if there is none. It
	// may lag behind by a second.
	Solitary(ctx context.Context, lease time.Duration, topics ...string) (string, error)
}

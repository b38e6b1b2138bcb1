package storetest

import (
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
)

var delaySentences = []Sentence{
	{Text: "A delayed message becomes visible that long after the store took it, by the store's clock.",
		Name: "DelayPutsOff", Test: func(t *T) {
			t.put(t.delayed(t.msg("b"), 4*time.Minute), t.delayed(t.msg("a"), 2*time.Minute))
			t.closedFor(2 * time.Minute)
			t.ack(t.claims("a")...)
			t.later(2*time.Minute, "b")
		}},
	{Text: "A delayed message blocks nobody until it is due, its own lane included.",
		Name: "DelayedBlocksNobody", Test: func(t *T) {
			t.put(t.delayed(t.keyed("k", "late"), time.Hour))
			t.lane("k", "a", "b")
			t.ack(t.claims("a", "b")...)
			t.claimedRun("k", "c")
		}},
	{Text: "A delayed message joins the tail of its lane when it is due.",
		Name: "DelayedJoinsTheTail", Test: func(t *T) {
			t.lane("k", "a")
			t.put(t.delayed(t.keyed("k", "late"), time.Minute))
			t.Advance(10 * time.Second)
			t.lane("k", "b")
			t.Advance(2 * time.Minute)
			t.wantBodies(t.claimRun(1, 1), "a") // and the store notices what is due
			t.lane("k", "c")
			t.later(expiry, "a", "b", "late", "c")
		}},
	{Text: "A delayed message that is due while its lane is held waits behind what is held.",
		Name: "DelayedJoinsAHeldLane", Test: func(t *T) {
			t.put(t.delayed(t.keyed("k", "late"), time.Minute))
			ds := t.claimedRun("k", "a", "b")
			t.later(90 * time.Second)
			t.ack(ds[0])
			t.nothing()
			t.ack(ds[1])
			t.claims("late")
		}},
	{Text: "Delayed messages of one lane join it in the order in which they are due.",
		Name: "DelayedAmongTheDelayed", Test: func(t *T) {
			t.put(t.delayed(t.keyed("k", "c"), 3*time.Minute), t.delayed(t.keyed("k", "a"), time.Minute),
				t.delayed(t.keyed("k", "b"), 2*time.Minute))
			t.later(4*time.Minute, "a", "b", "c")
		}},
	// More is due than a store handles at once.
	{Text: "However many messages are due, each is in its lane in front of what is appended later.",
		Name: "MuchIsDue", Test: func(t *T) {
			const many = 1100
			t.put(each(numbered("", many), func(key string) pawl.Message {
				return t.delayed(t.keyed(key, "old"), time.Hour)
			})...)
			t.Advance(2 * time.Hour)
			last := strconv.Itoa(many - 1)
			t.lane(last, "new")
			var got []string
			for _, d := range t.workOff(2*many, 0) {
				if string(d.Key) == last {
					got = append(got, string(d.Body))
				}
			}
			t.check(slices.Equal(got, []string{"old", "new"}), "the last lane gave %q", got)
		}},
	{Text: "A delivery's Waited counts from when the message became visible, EnqueuedAt from when it was stored.",
		Name: "WaitedCountsFromVisible", Test: func(t *T) {
			t.put(t.delayed(t.msg("a"), 3*time.Minute))
			t.Advance(5 * time.Minute)
			t.put(t.msg("b"))
			ds := t.claims("a", "b")
			t.near("what a waited", ds[0].Waited, 2*time.Minute)
			t.near("the time between a and b", ds[1].EnqueuedAt.Sub(ds[0].EnqueuedAt), 5*time.Minute)
		}},
	{Text: "A delay of ten years is taken, and kept.",
		Name: "LongestDelay", Test: func(t *T) {
			t.put(t.delayed(t.msg("a"), pawl.MaxDelay))
			t.later(pawl.MaxDelay - time.Hour)
			t.later(2*time.Hour, "a")
		}},
}

func (t *T) delayed(m pawl.Message, by time.Duration) pawl.Message {
	m.Delay = by
	return m
}

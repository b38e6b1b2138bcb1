package storetest

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// The steps that a clock is set back by.
var setBacks = []time.Duration{5 * time.Minute, time.Hour}

// setBack sets the clock back, if that can be.
func (t *T) setBack(d time.Duration) {
	if t.SetBack != nil {
		t.SetBack(d)
	}
}

var setBackSentences = []Sentence{
	{Text: "When the clock is set back, leases, retries and pauses end when they would have.",
		Name: "ClockIsSetBack", Needs: needs(store.CanTopics), Test: func(t *T) {
			const soon = 2 * time.Minute
			for _, step := range setBacks {
				t.put(t.msg("again"), t.msg("leased"))
				ds := t.claimWith(store.Lease{For: soon, Owner: "w"}, store.Want{Topic: t.Topic, Limit: 2, Run: 1})
				t.wantBodies(ds, "again", "leased")
				t.retry(ds[0], soon)
				t.pause(soon)

				t.setBack(step)
				t.nothing()
				t.Advance(3 * time.Minute)
				t.notPaused()
				t.ack(t.claims("again", "leased")...)
				t.put(t.msg("later"))
				t.pause(soon)
				t.nothing()
				t.ack(t.later(3*time.Minute, "later")...)
			}
		}},
	{Text: "When the clock is set back, delays, holds and unique keys end when they would have.",
		Name: "ClockIsSetBackForNewOnes", Needs: needs(store.CanDelay, store.CanUnique), Test: func(t *T) {
			for _, step := range setBacks {
				t.hold(t.headOf("held", "first", "behind"), 2*time.Minute)
				t.put(t.delayed(t.msg("late"), 2*time.Minute))
				key := step.String()
				kept := t.put(t.unique("unique", key, pawl.Unique{For: 4 * time.Minute}))
				t.ack(t.claims("unique")...)

				t.setBack(step)
				t.nothing()
				r := t.append(t.unique("twice", key, pawl.Unique{For: time.Minute}))[0]
				t.check(r.DuplicateOf == kept[0], "the unique key is free: %+v", r)
				t.ack(t.later(3*time.Minute, "behind", "late")...)
				t.Advance(2 * time.Minute)
				t.put(t.unique("unique", key, pawl.Unique{For: time.Minute}))
				t.ack(t.claims("unique")...)
			}
		}},
}

var setBackMarkSentences = []Sentence{
	{Text: "When the clock is set back, marks end when they would have, and those that had ended stay away.",
		Name: "ClockIsSetBackForMarks", Test: func(t *T) {
			for _, step := range setBacks {
				m := mark("soon"+step.String(), "v")
				m.For = 2 * time.Minute
				over := mark("over"+step.String(), "v")
				over.For = time.Minute
				t.putMarks(over)
				t.Advance(90 * time.Second)
				t.putMarks(m)
				t.setBack(step)
				t.wantMark(m.Key, "v")
				t.noMark(over.Key)
				t.Advance(3 * time.Minute)
				t.noMark(m.Key)
			}
		}},
}

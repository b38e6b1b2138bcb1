package storetest

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var rescueSentences = []Sentence{
	{Text: "A lease that ended unsettled counts a rescue, not an attempt.",
		Name: "RescueIsNoAttempt", Needs: needs(store.CanDeadline), Test: func(t *T) {
			t.put(t.msg("a"))
			for i := range store.SolitaryAfter - 1 {
				d := t.claimOne()
				t.wantCounts(d, 1, i)
				t.expire()
			}
			t.retry(t.claimOne(), 0)
			t.wantCounts(t.claimOne(), 2, store.SolitaryAfter-1)
		}},
	{Text: "A rescue counts for the first message of the run, and for no other.",
		Name: "RescueBlamesTheFirst", Needs: needs(store.CanDeadline), Test: func(t *T) {
			t.claimedRun("k", "a", "b", "c")
			ds := t.later(expiry, "a", "b", "c")
			t.wantRescues(ds, 1, 0, 0)
			t.ack(ds[0])
			t.expire()
			t.wantRescues(t.claims("b", "c"), 1, 0)
		}},
	{Text: "What was acked of a run before its lease ended is out of it: the rescue counts for the first that is left.",
		Name: "RescueBlamesTheFirstThatIsLeft", Needs: needs(store.CanDeadline), Test: func(t *T) {
			t.lane("k", "a", "b", "c")
			t.ack(t.claims("a", "b", "c")[0])
			t.expire()
			t.wantRescues(t.claims("b", "c"), 1, 0)
		}},
	{Text: "A message with one rescue is claimed like any other: at its rank, beside others, in full runs, whatever the claim says of suspects.",
		Name: "OneRescueSaysNothing", Needs: needs(store.CanDeadline), Test: func(t *T) {
			t.lane("k", "a", "b", "c")
			t.put(t.msg("d"))
			t.claims("a", "b", "c", "d")
			t.expire()
			t.put(t.msg("e"))
			ds := t.claimWith(store.Lease{For: lease}, store.Want{Topic: t.Topic, Limit: 100})
			t.wantBodies(ds, "a", "b", "c", "d", "e")
			t.wantRescues(ds, 1, 0, 0, 1, 0)
		}},
	{Text: "A message with two or three rescues is a run by itself, beside others.",
		Name: "SuspectIsItsOwnRun", Needs: needs(store.CanDeadline), Test: func(t *T) {
			t.lane("k", "a", "b")
			t.rescued(store.SuspectAfter, "a", "b")
			t.put(t.msg("c"))
			for i := range store.SolitaryAfter - store.SuspectAfter {
				ds := t.claims("a", "c")
				t.wantRescues(ds, store.SuspectAfter+i, 0)
				t.release(ds[1], 0)
				t.expire()
			}
			ds := t.claimAlone()
			t.wantBodies(ds, "a")
			t.ack(ds...)
			t.wantRescues(t.claims("b", "c"), 0, 0)
		}},
	{Text: "A suspect stays one through retry and release.",
		Name: "SuspectStaysOne", Needs: needs(store.CanDeadline), Test: func(t *T) {
			t.put(t.msg("a"))
			t.rescued(store.SuspectAfter, "a")
			t.put(t.msg("b"))
			ordinary := func() {
				ds := t.claimWith(store.Lease{For: lease}, store.Want{Topic: t.Topic, Limit: 100})
				t.wantBodies(ds, "b")
				t.release(ds[0], 0)
			}
			ds := t.claims("a", "b")
			t.release(ds[1], 0)
			t.retry(ds[0], 0)
			ordinary()
			ds = t.claims("a", "b")
			t.release(ds[1], 0)
			t.release(ds[0], 0)
			ordinary()
		}},
	{Text: "A message that failed or was released, but never rescued, is no suspect.",
		Name: "FailureMakesNoSuspect", Test: func(t *T) {
			t.lane("k", "a", "b")
			t.put(t.msg("c"), t.msg("d"))
			for _, after := range []time.Duration{0, time.Minute} {
				for _, v := range []store.Verdict{store.Retry, store.Release} {
					ds := t.claims("a", "b", "c", "d")
					t.settled(each([]pawl.Delivery{ds[0], ds[2], ds[3]}, func(d pawl.Delivery) store.Settlement {
						return store.Settlement{Token: d.Token, ID: d.ID, Verdict: v, After: after}
					})...)
					t.Advance(2 * after)
				}
			}
			t.claims("a", "b", "c", "d")
		}},
	{Text: "The others of a run whose lease ended are no suspects: no rescue, no attempt, claimed together.",
		Name: "NeighboursAreNotPunished", Needs: needs(store.CanDeadline), Test: func(t *T) {
			t.lane("k", "a", "b", "c")
			t.lane("l", "d", "e")
			for i := range store.SolitaryAfter {
				ds := t.claim(100)
				want := map[string]int{"a": i, "d": i}
				for _, d := range ds {
					t.check(d.Rescues == want[string(d.Body)] && d.Attempt == 1,
						"claimed %q with %d rescues, attempt %d", d.Body, d.Rescues, d.Attempt)
					delete(want, string(d.Body))
				}
				t.check(len(want) == 0, "claimed %q; the heads of both lanes are missing", bodiesOf(ds))
				t.expire()
			}
			for range 2 {
				t.ack(t.claimAlone()...)
			}
			t.wantRescues(t.claims("b", "c", "e"), 0, 0, 0)
		}},
	{Text: "A message that died of rescues frees its lane; who stood behind is no suspect.",
		Name: "RescueDeathFreesTheLane", Needs: needs(store.CanDeadline, store.CanDeadLetters, store.CanLookup),
		Test: func(t *T) {
			t.lane("k", "a")
			t.rescued(store.SolitaryAfter, "a")
			t.lane("k", "b", "c")
			t.rescuedAlone(store.LonelyRescues, "a")
			t.wantRescues(t.claims("b", "c"), 0, 0)
		}},
	{Text: "A rescue is in the history of the message, with the owner of the lease that ended.",
		Name: "RescueIsOnRecord", Needs: needs(store.CanDeadline, store.CanLookup), Test: func(t *T) {
			id := t.put(t.msg("a"))[0]
			t.claimAlone()
			t.expire()
			t.claimOne()
			r := t.get(id)
			t.check(r.Rescues == 1 && r.Attempts == 0 && len(r.History) == 1, "record after a rescue: %+v", r)
			h := r.History[0]
			t.check(h.Kind == string(pawl.KindRescue) && h.Worker == "me" && h.Error != "", "history of a rescue: %+v",
				h)
			t.near("the rescued lease", h.EndedAt.Sub(h.StartedAt), lease)
		}},
}

// rescued lets the leases of the messages that are there end so many times, beside other work.
func (t *T) rescued(times int, bodies ...string) {
	for range times {
		t.claims(bodies...)
		t.expire()
	}
}

func (t *T) wantRescues(ds []pawl.Delivery, want ...int) {
	for i, d := range ds {
		t.wantCounts(d, 1, want[i])
	}
}

package storetest

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/fingerprint"
	"github.com/pawl-dev/pawl/store"
)

func rescueSentences() []Sentence {
	ends, recorded := needs(store.CanDeadline), needs(store.CanDeadline, store.CanDeadLetters, store.CanLookup)
	return []Sentence{
		{Name: "RescueIsNoAttempt", Needs: ends, Test: rescueIsNoAttempt,
			Text: "A lease that ended unsettled counts a rescue, not an attempt."},
		{Name: "RescueBlamesTheFirst", Needs: ends, Test: rescueBlamesTheFirst,
			Text: "A rescue counts for the first message of the run, and for no other."},
		{Name: "RescueBlamesTheFirstThatIsLeft", Needs: ends, Test: rescueBlamesTheFirstThatIsLeft,
			Text: "What was acked of a run before its lease ended is out of it: the rescue counts for the first that is left."},
		{Name: "SuspectIsAlone", Needs: ends, Test: suspectIsAlone,
			Text: "A suspect is claimed alone, as the only delivery of its claim."},
		{Name: "SuspectIsAloneAcrossTopics", Needs: ends, Test: suspectIsAloneAcrossTopics,
			Text: "A suspect is the only delivery of its claim across all topics of the claim."},
		{Name: "SuspectIsServedByRank", Needs: needs(store.CanDeadline, store.CanPriority), Test: suspectIsServedByRank,
			Text: "A suspect is claimed as soon as its rank is the best of its topic."},
		{Name: "SuspectStaysOne", Needs: ends, Test: suspectStaysOne,
			Text: "A message with a rescue stays a suspect through retry and release."},
		{Name: "FailureMakesNoSuspect", Test: failureMakesNoSuspect,
			Text: "A message that failed or was released, but never rescued, is no suspect: it is claimed among others."},
		{Name: "NeighboursAreNotPunished", Needs: ends, Test: neighboursAreNotPunished,
			Text: "The others of a run whose lease ended are no suspects: no rescue, no attempt, claimed together."},
		{Name: "ThreeLonelyRescuesKill", Needs: recorded, Test: threeLonelyRescuesKill,
			Text: "When a suspect's lease that was claimed with Alone ends unsettled for the third time, the message becomes a dead letter of kind Rescue."},
		{Name: "RescuesInCompanyNeverKill", Needs: ends, Test: rescuesInCompanyNeverKill,
			Text: "Rescues of leases that were claimed without Alone never make a dead letter."},
		{Name: "LonelyRescuesAddUp", Needs: recorded, Test: lonelyRescuesAddUp,
			Text: "Only a rescue of a suspect's lease that was claimed with Alone counts towards its death, whatever comes in between."},
		{Name: "RescueDeathFreesTheLane", Needs: recorded, Test: rescueDeathFreesTheLane,
			Text: "A message that died of rescues frees its lane; who stood behind is no suspect."},
		{Name: "RescueIsOnRecord", Needs: needs(store.CanDeadline, store.CanLookup), Test: rescueIsOnRecord,
			Text: "A rescue is in the history of the message, with the owner of the lease that ended."},
	}
}

// claimAlone claims one message with the promise to carry out nothing else.
func (t *T) claimAlone() []pawl.Delivery {
	t.Helper()
	return t.claimFrom(t.Store, store.Lease{For: lease, Owner: "me", Alone: true}, store.Want{Topic: t.Topic, Limit: 100})
}

// rescued makes a suspect of the one message that is there.
func (t *T) rescued(body string) {
	t.Helper()
	t.claims(body)
	t.expire()
}

func rescueIsNoAttempt(t *T) {
	t.put(t.msg("a"))
	for i := range 5 {
		d := t.claimOne()
		if d.Attempt != 1 || d.Rescues != i {
			t.Fatalf("after %d rescues: attempt %d, rescues %d", i, d.Attempt, d.Rescues)
		}
		t.expire()
	}
	t.retry(t.claimOne(), 0)
	if d := t.claimOne(); d.Attempt != 2 || d.Rescues != 5 {
		t.Fatalf("after 5 rescues and a retry: attempt %d, rescues %d", d.Attempt, d.Rescues)
	}
}

func (t *T) wantRescues(ds []pawl.Delivery, want ...int) {
	t.Helper()
	for i, d := range ds {
		if d.Rescues != want[i] || d.Attempt != 1 {
			t.Fatalf("message %q: %d rescues, attempt %d; want %d and 1", d.Body, d.Rescues, d.Attempt, want[i])
		}
	}
}

func rescueBlamesTheFirst(t *T) {
	t.lane("k", "a", "b", "c")
	t.claims("a", "b", "c")
	t.expire()
	a := t.claims("a")
	t.wantRescues(a, 1)
	t.ack(a...)
	t.wantRescues(t.claims("b", "c"), 0, 0)
}

func rescueBlamesTheFirstThatIsLeft(t *T) {
	t.lane("k", "a", "b", "c")
	t.ack(t.claims("a", "b", "c")[0])
	t.expire()
	b := t.claims("b")
	t.wantRescues(b, 1)
	t.ack(b...)
	t.wantRescues(t.claims("c"), 0)
}

func suspectIsAlone(t *T) {
	t.lane("k", "a")
	t.rescued("a")
	t.lane("k", "b")
	t.put(t.msg("c"), t.msg("d"))
	t.wantRescues(t.claims("a"), 1)
	t.wantRescues(t.claims("c", "d"), 0, 0)
}

func suspectIsAloneAcrossTopics(t *T) {
	first := t.Topic
	t.put(t.msg("a"))
	t.rescued("a")
	t.Topic += "2"
	t.put(t.msg("b"))
	wants := []store.Want{{Topic: t.Topic, Limit: 10}, {Topic: first, Limit: 10}}
	var got []string
	for range 2 {
		ds := t.claimFrom(t.Store, store.Lease{For: lease}, wants...)
		if len(ds) != 1 {
			t.Fatalf("claimed %q together, with a suspect in one of two topics", bodiesOf(ds))
		}
		got = append(got, string(ds[0].Body))
	}
	if got[0] == got[1] {
		t.Fatalf("claimed %q; want both", got)
	}
}

func suspectIsServedByRank(t *T) {
	t.put(t.prio(50, "suspect"))
	t.rescued("suspect")
	t.put(t.prio(10, "bulk"), t.prio(90, "vip"))
	vip := t.claim(1)
	t.wantBodies(vip, "vip")
	t.claims("suspect")
	t.claims("bulk")
	t.ack(vip...)
}

func suspectStaysOne(t *T) {
	t.put(t.msg("a"))
	t.rescued("a")
	t.put(t.msg("b"))
	t.retry(t.claims("a")[0], 0)
	t.release(t.claims("a")[0], 0)
	t.wantBodies(t.claims("a"), "a")
}

func failureMakesNoSuspect(t *T) {
	t.lane("k", "a", "b")
	t.put(t.msg("c"), t.msg("d"))
	for _, after := range []time.Duration{0, time.Minute} {
		for _, v := range []store.Verdict{store.Retry, store.Release} {
			ds := t.claims("a", "b", "c", "d")
			var items []store.Settlement
			for _, i := range []int{0, 2, 3} {
				s := verdict(ds[i], v)
				s.After = after
				items = append(items, s)
			}
			t.settled(items...)
			t.Advance(2 * after)
		}
	}
	t.claims("a", "b", "c", "d")
}

func neighboursAreNotPunished(t *T) {
	t.lane("k", "a", "b", "c")
	t.lane("l", "d", "e")
	t.claims("a", "b", "c", "d", "e")
	t.expire()
	want := map[string]int{"a": 1, "b": 0, "c": 0, "d": 1, "e": 0}
	for len(want) > 0 {
		ds := t.claim(100)
		if len(ds) == 0 {
			t.Fatalf("nothing more to claim, but %v", want)
		}
		for _, d := range ds {
			rescues, there := want[string(d.Body)]
			if !there || d.Rescues != rescues || d.Attempt != 1 || rescues > 0 && len(ds) > 1 {
				t.Fatalf("claimed %q with %d rescues, attempt %d, among %q", d.Body, d.Rescues, d.Attempt, bodiesOf(ds))
			}
			delete(want, string(d.Body))
		}
		t.ack(ds...)
	}
}

func threeLonelyRescuesKill(t *T) {
	id := t.put(t.msg("a"))[0]
	t.rescued("a")
	for i := range store.LonelyRescues {
		ds := t.claimAlone()
		t.wantBodies(ds, "a")
		t.wantRescues(ds, i+1)
		t.expire()
	}
	if ds := t.claimAlone(); len(ds) > 0 {
		t.Fatalf("claimed %q after three lonely rescues", bodiesOf(ds))
	}
	r := t.inState(id, store.IsDead)
	if r.Kind != pawl.KindRescue || r.Reason != store.LonelyReason || r.Attempts != 0 || r.Lonely != store.LonelyRescues ||
		r.Rescues != store.LonelyRescues+1 || r.Fingerprint != fingerprint.Of(r.Kind, r.Reason) {
		t.Fatalf("dead letter %+v", r)
	}
	if dead := t.deadLetters(store.DeadFilter{Kind: pawl.KindRescue}); len(dead) != 1 || dead[0].ID != id {
		t.Fatalf("dead letters of kind Rescue: %+v", dead)
	}
}

func rescuesInCompanyNeverKill(t *T) {
	t.put(t.msg("a"))
	for range 3 * store.LonelyRescues {
		t.rescued("a")
	}
	t.claims("a")
}

func lonelyRescuesAddUp(t *T) {
	id := t.put(t.msg("a"))[0]
	t.wantBodies(t.claimAlone(), "a") // not a suspect yet: this one does not count
	t.expire()
	for range store.LonelyRescues - 1 {
		t.wantBodies(t.claimAlone(), "a")
		t.expire()
		t.rescued("a") // in company
		t.release(t.claimOne(), 0)
	}
	t.wantBodies(t.claimAlone(), "a")
	t.expire()
	t.nothing()
	t.inState(id, store.IsDead)
}

func rescueDeathFreesTheLane(t *T) {
	t.lane("k", "a", "b", "c")
	t.claims("a", "b", "c")
	t.expire()
	for range store.LonelyRescues {
		t.wantBodies(t.claimAlone(), "a")
		t.expire()
	}
	t.wantRescues(t.claims("b", "c"), 0, 0)
}

func rescueIsOnRecord(t *T) {
	id := t.put(t.msg("a"))[0]
	t.claimAlone()
	t.expire()
	t.claimOne()
	r := t.get(id)
	if r.Rescues != 1 || r.Attempts != 0 || len(r.History) != 1 {
		t.Fatalf("record after a rescue: %+v", r)
	}
	h := r.History[0]
	if h.Kind != string(pawl.KindRescue) || h.Worker != "me" || h.Error == "" {
		t.Fatalf("history of a rescue: %+v", h)
	}
	t.near("the rescued lease", h.EndedAt.Sub(h.StartedAt), lease)
}

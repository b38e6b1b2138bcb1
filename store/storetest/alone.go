package storetest

import (
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/fingerprint"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

var aloneSentences = []Sentence{
	{Text: "A claim brings suspects up to the weight that it asks for: 1 with two rescues, 8 with three. One that does not fit is passed over.",
		Name: "SuspectsAreWeighed", Test: func(t *T) {
			t.put(t.msg("a"), t.msg("b"))
			t.rescued(store.SuspectAfter, "a", "b")
			t.put(t.msg("c"))
			again := func(ds []pawl.Delivery) {
				for _, d := range ds {
					t.release(d, 0)
				}
			}
			ds := t.claimWeighing(0)
			t.wantBodies(ds, "c")
			again(ds)
			ds = t.claimWeighing(1)
			t.wantBodies(ds, "a", "c")
			t.wantBodies(t.claimWeighing(1), "b")
			t.release(ds[1], 0)
			t.expire() // both have three rescues now
			ds = t.claimWeighing(7)
			t.wantBodies(ds, "c")
			again(ds)
			ds = t.claimWeighing(15)
			t.wantBodies(ds, "a", "c")
			t.wantRescues(ds, 3, 0)
			again(ds)
			t.wantBodies(t.claimWeighing(16), "a", "b", "c")
		}},
	{Text: "The weight of suspects is that of all topics of the claim together.",
		Name: "SuspectsAreWeighedAcrossTopics", Test: func(t *T) {
			first := t.Topic
			for _, topic := range []string{first, first + "2"} {
				t.Topic = topic
				t.put(t.msg(topic))
				t.rescued(store.SuspectAfter, topic)
			}
			ds := t.claimWeighing(1, store.Want{Topic: first, Limit: 10}, store.Want{Topic: first + "2", Limit: 10})
			t.wantBodies(ds, first)
			t.release(ds[0], 0)
			ds = t.claimWeighing(2, store.Want{Topic: first, Limit: 10}, store.Want{Topic: first + "2", Limit: 10})
			t.wantBodies(ds, first, first+"2")
		}},
	{Text: "A suspect that fits is claimed as soon as its rank is the best of its topic, and not before better ones.",
		Name: "SuspectIsServedByRank", Needs: needs(store.CanPriority), Test: func(t *T) {
			t.put(t.prio(50, "suspect"))
			t.rescued(store.SuspectAfter, "suspect")
			t.put(t.prio(10, "bulk"), t.prio(90, "vip"))
			vip := t.claim(1)
			t.wantBodies(vip, "vip")
			t.wantBodies(t.claim(1), "suspect")
			t.wantBodies(t.claim(1), "bulk")
			t.ack(vip...)
		}},
	{Text: "From four rescues on, only a claim with Alone brings a message; others are not held up by it.",
		Name: "AloneNeedsThePromise", Test: func(t *T) {
			t.put(t.msg("a"))
			t.rescued(store.SolitaryAfter, "a")
			t.put(t.msg("b"), t.msg("c"))
			t.told(t.Topic)
			ds := t.claimWeighing(1000)
			t.wantBodies(ds, "b", "c")
			t.ack(ds...)
			t.nothing()
			t.wantRescues(t.claimAlone(), store.SolitaryAfter)
			t.told("")
		}},
	{Text: "A claim with AllSuspects brings messages whatever their rescues are, together, and their rescues do not count towards a death.",
		Name: "WhoMovesGetsAll", Test: func(t *T) {
			t.put(t.msg("a"), t.msg("b"))
			for range store.SolitaryAfter + store.LonelyRescues + 1 {
				t.wantBodies(t.claimWeighing(backend.AllSuspects), "a", "b")
				t.expire()
			}
			t.put(t.msg("c"))
			t.wantBodies(t.claimWeighing(backend.AllSuspects), "a", "b", "c")
		}},
	{Text: "A message that is tried alone is the only delivery of its claim, across all topics of it, and goes before messages of a better rank.",
		Name: "AloneIsTheOnlyDelivery", Test: func(t *T) {
			first := t.Topic
			t.put(t.msg("a"))
			t.rescued(store.SolitaryAfter, "a")
			t.put(t.msg("b"))
			t.Topic += "2"
			t.put(t.msg("c"))
			wants := []store.Want{{Topic: t.Topic, Limit: 10}, {Topic: first, Limit: 10}}
			alone := store.Lease{For: lease, Suspects: store.MaxSuspects, Alone: true}
			t.wantBodies(t.claimWith(alone, wants...), "a")
			t.wantBodies(t.claimWith(alone, wants...), "c", "b")
		}},
	{Text: "When a lease that was claimed alone ends unsettled for the third time, the message becomes a dead letter of kind Rescue.",
		Name: "ThreeLonelyRescuesKill", Needs: needs(store.CanDeadLetters, store.CanLookup), Test: func(t *T) {
			id := t.put(t.msg("a"))[0]
			t.rescued(store.SolitaryAfter, "a")
			for i := range store.LonelyRescues {
				ds := t.claimAlone()
				t.wantBodies(ds, "a")
				t.wantRescues(ds, store.SolitaryAfter+i)
				t.expire()
			}
			t.wantBodies(t.claimAlone()) // after three lonely rescues
			r := t.inState(id, store.IsDead)
			t.check(r.Kind == pawl.KindRescue && r.Reason == backend.LonelyReason && r.Attempts == 0 &&
				r.Lonely == store.LonelyRescues && r.Rescues == store.LonelyRescues+store.SolitaryAfter &&
				r.Fingerprint == fingerprint.Of(r.Kind, r.Reason), "dead letter %+v", r)
			dead := t.deadLetters(store.DeadFilter{Kind: pawl.KindRescue})
			t.check(len(dead) == 1 && dead[0].ID == id, "dead letters of kind Rescue: %+v", dead)
		}},
	{Text: "The promise to be alone changes nothing for a message with fewer than four rescues: its rescue does not count towards a death.",
		Name: "RescuesBesideOthersNeverKill", Needs: needs(store.CanDeadLetters, store.CanLookup), Test: func(t *T) {
			id := t.put(t.msg("a"))[0]
			t.rescuedAlone(store.SolitaryAfter, "a")
			t.wantBodies(t.claimAlone(), "a")
			r := t.get(id)
			t.check(r.Lonely == 0 && r.Rescues == store.SolitaryAfter,
				"%d rescues, %d of them lonely; want %d and none", r.Rescues, r.Lonely, store.SolitaryAfter)
		}},
	{Text: "Rescues of leases claimed alone add up, even with other attempts in between.",
		Name: "LonelyRescuesAddUp", Needs: needs(store.CanDeadLetters, store.CanLookup), Test: func(t *T) {
			id := t.put(t.msg("a"))[0]
			t.rescued(store.SolitaryAfter, "a")
			for range store.LonelyRescues - 1 {
				t.wantBodies(t.claimAlone(), "a")
				t.expire()
				t.release(t.claimAlone()[0], 0)
				t.retry(t.claimAlone()[0], 0)
			}
			t.wantBodies(t.claimAlone(), "a")
			t.expire()
			t.wantBodies(t.claimAlone())
			t.inState(id, store.IsDead)
		}},
	{Text: "While the last three deaths beside other work in a topic are younger than ten leases, no message of it is tried alone; other work goes on.",
		Name: "DeathsPutRunningAloneOff", Test: func(t *T) {
			t.put(t.msg("a"))
			t.rescued(store.SolitaryAfter, "a")
			t.told(t.Topic)
			t.dieInCompany(store.LastDeaths, t.Topic)
			t.told("")
			t.put(t.msg("b"))
			b := t.claimAlone()
			t.wantBodies(b, "b")
			t.ack(b...)
			t.wantBodies(t.claimWith(store.Lease{For: time.Second, Alone: true}, store.Want{Topic: t.Topic, Limit: 1}),
				"a")
			t.Advance(2 * time.Second)
			t.wantBodies(t.claimAlone())
			t.Advance(store.DeathsWithin*lease - 2*time.Minute)
			t.told(t.Topic)
			t.wantBodies(t.claimAlone(), "a")
		}},
	{Text: "Deaths put off no message for longer than half an hour from its last rescue.",
		Name: "PuttingOffEnds", Test: func(t *T) {
			t.put(t.msg("a"), t.msg("b"))
			t.rescued(store.SolitaryAfter, "a", "b")
			for range 9 {
				t.dieInCompany(store.LastDeaths, t.Topic)
			}
			t.told("")
			t.wantBodies(t.claimAlone())
			t.dieInCompany(store.LastDeaths, t.Topic)
			t.told(t.Topic)
			for _, body := range []string{"a", "b"} {
				t.wantBodies(t.claimAlone(), body)
				t.expire()
				t.dieInCompany(store.LastDeaths, t.Topic)
			}
			t.told("")
			t.wantBodies(t.claimAlone())
		}},
	{Text: "Leases of one owner that end unsettled are one death, and those claimed alone are none.",
		Name: "DeathsOfOneOwnerAreOne", Test: func(t *T) {
			t.put(t.msg("a"))
			t.rescued(store.SolitaryAfter, "a") // a death of the owner without a name
			t.dieInCompany(1, t.Topic)
			t.dieInCompany(1, t.Topic)
			t.wantBodies(t.claimAlone(), "a")
			t.expire()
			t.wantBodies(t.claimAlone(), "a")
		}},
	{Text: "Deaths in one topic do not keep messages of another from being tried alone.",
		Name: "DeathsAreOfTheirTopic", Test: func(t *T) {
			t.put(t.msg("a"))
			t.rescued(store.SolitaryAfter, "a")
			t.dieInCompany(store.LastDeaths, t.Topic+"2")
			t.wantBodies(t.claimAlone(), "a")
		}},
	{Text: "The figures of a topic have its last deaths beside other work: three at most, one for each owner, the oldest first.",
		Name: "DeathsAreFigures", Needs: needs(store.CanTopics, store.CanFigures), Test: func(t *T) {
			t.dieInCompany(4, t.Topic)
			t.dieInCompany(1, t.Topic)
			got := t.stats().Deaths
			var owners []string
			for i, d := range got {
				owners = append(owners, d.Owner)
				t.check(i <= 0 || d.At.Sub(got[i-1].At) >= 30*time.Second, "deaths %+v: not in order", got)
			}
			t.check(len(owners) == 3 && owners[0] == "owner 2" && owners[1] == "owner 3" && owners[2] == "owner 0",
				"deaths of %q; want those of owner 2, owner 3 and owner 0", owners)
		}},
}

// claimAlone claims one message with the promise to carry out nothing else.
func (t *T) claimAlone() []pawl.Delivery {
	return t.claimWith(store.Lease{For: lease, Owner: "me", Suspects: store.MaxSuspects, Alone: true},
		store.Want{Topic: t.Topic, Limit: 100})
}

// claimWeighing claims with room for suspects of that weight.
func (t *T) claimWeighing(weight int, wants ...store.Want) []pawl.Delivery {
	if wants == nil {
		wants = []store.Want{{Topic: t.Topic, Limit: 100}}
	}
	return t.claimWith(store.Lease{For: lease, Suspects: weight}, wants...)
}

// rescuedAlone lets the lease of a message end so many times, each time claimed by who
// promises to carry out nothing else.
func (t *T) rescuedAlone(times int, body string) {
	for range times {
		t.wantBodies(t.claimAlone(), body)
		t.expire()
	}
}

// dieInCompany lets a lease of each of so many owners end, of the ordinary message
// that is there.
func (t *T) dieInCompany(owners int, topic string) {
	for i := range owners {
		t.put(pawl.Message{Topic: topic, Body: []byte("victim")})
		ds := t.claimWith(store.Lease{For: time.Minute, Owner: "owner " + strconv.Itoa(i)},
			store.Want{Topic: topic, Limit: 1})
		t.wantBodies(ds, "victim")
		t.Advance(61 * time.Second)
		t.ack(t.claimWith(store.Lease{For: lease, Owner: "heir"}, store.Want{Topic: topic, Limit: 1})...)
	}
}

// told fails unless the store names that topic as one with a message to be tried alone; empty: none. Its
// answer may lag behind.
func (t *T) told(topic string) {
	s, ok := store.As[store.Suspected](t.Store)
	if !ok {
		return
	}
	var got string
	for end := time.Now().Add(t.timeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var err error
		got, err = s.Solitary(t.ctx(), lease, t.Topic, "none")
		t.check(err == nil, "%v", err)
		if got == topic {
			return
		}
	}
	t.Fatalf("the store names a message to be tried alone in topic %q; want %q", got, topic)
}

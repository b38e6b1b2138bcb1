package storetest

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/fingerprint"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

var parkSentences = []Sentence{
	{Text: "In a topic that parks, what follows a dead letter in its lane goes to the dead letters when its turn comes.",
		Name: "ParkSendsFollowersToTheDead", Test: func(t *T) {
			t.kill(t.headOf("k", "a", "b", "c"), "dead")
			t.nothing()
			t.wantDead("a", "b", "c")
		}},
	{Text: "What was left of the dead letter's own run is parked, too.",
		Name: "ParkTakesTheRestOfTheRun", Test: func(t *T) {
			t.lane("k", "a", "b", "c", "d")
			ds := t.claimRun(10, 3)
			t.settled(verdict(ds[0], store.Ack), verdict(ds[1], store.Dead))
			t.lost(verdict(ds[2], store.Ack))
			t.nothing()
			t.wantDead("b", "c", "d")
		}},
	{Text: "What is appended to a lane with a dead letter is parked for as long as the dead letter is there.",
		Name: "ParkTakesWhatComesLater", Test: func(t *T) {
			t.lane("k", "a")
			t.kill(t.claimOne(), "dead")
			t.nothing()
			for _, b := range []string{"b", "c"} {
				t.lane("k", b)
				t.nothing()
			}
			t.wantDead("a", "b", "c")
		}},
	{Text: "When the last dead letter of the lane is purged, the lane flows again.",
		Name: "ParkEndsWithTheLastDeadLetter", Test: func(t *T) {
			t.kill(t.headOf("k", "a", "b"), "dead")
			t.nothing()
			dead := t.wantDead("a", "b")
			t.noneRefused(t.dead().Purge(t.ctx(), dead[0].ID))
			t.lane("k", "c")
			t.nothing() // b is there
			dead = t.wantDead("b", "c")
			t.noneRefused(t.dead().Purge(t.ctx(), dead[0].ID, dead[1].ID))
			t.claimedRun("k", "d", "e")
		}},
	{Text: "Replayed messages pass, although other dead letters of their lane are there.",
		Name: "ReplayedMessagesPass", Test: func(t *T) {
			t.kill(t.headOf("k", "a", "b", "c"), "dead")
			t.nothing()
			dead := t.wantDead("a", "b", "c")
			t.replay("", dead[0].ID, dead[1].ID)
			t.lane("k", "d")
			ds := t.claims("a", "b")
			t.wantDead("c", "d")
			t.ack(ds...)
			t.nothing()
			t.replay("", dead[2].ID, t.wantDead("c", "d")[1].ID)
			t.lane("k", "e")
			t.claims("c", "d", "e") // no dead letter is left
		}},
	{Text: "Parking concerns the lane of the dead letter only; messages without a key are never parked.",
		Name: "ParkConcernsItsLaneOnly", Test: func(t *T) {
			t.lane("k", "a", "b")
			t.lane("l", "c", "d")
			t.put(t.msg("e"), t.msg("f"))
			ds := t.heads(3)
			t.wantBodies(ds, "a", "c", "e")
			t.kill(ds[0], "dead")
			t.kill(ds[2], "dead")
			t.ack(ds[1])
			t.claims("d", "f")
			t.put(pawl.Message{Topic: "other", Key: []byte("k"), Body: []byte("g")})
			t.wantDead("a", "e", "b")
			t.claimsOf("other", "g")
		}},
	{Text: "A parked message is a dead letter of kind Parked, without an attempt.",
		Name: "ParkedIsOnRecord", Needs: needs(store.CanLookup), Test: func(t *T) {
			t.lane("k", "a")
			parked := t.put(t.keyed("k", "b"))[0]
			t.kill(t.claimRun(1, 1)[0], "dead")
			t.nothing()
			r := t.inState(parked, store.IsDead)
			t.check(r.Kind == pawl.KindParked && r.Reason == backend.ParkedReason && r.Attempts == 0 &&
				r.Rescues == 0 && r.Fingerprint == fingerprint.Of(pawl.KindParked, backend.ParkedReason) &&
				!r.DeadAt.IsZero(), "parked message %+v", r)
		}},
	{Text: "A delayed message is parked when it is due.",
		Name: "ParkTakesTheDelayed", Needs: needs(store.CanDelay), Test: func(t *T) {
			t.put(t.delayed(t.keyed("k", "late"), time.Minute))
			t.lane("k", "a")
			t.kill(t.claimOne(), "dead")
			t.nothing()
			t.wantDead("a")
			t.later(2 * time.Minute)
			t.wantDead("a", "late")
		}},
}

func (t *T) parking() {
	t.declare(store.Declaration{Park: new(true)})
}

func (t *T) wantDead(bodies ...string) []store.Record {
	dead := t.deadLetters(store.DeadFilter{Topic: t.Topic})
	t.wantRecords(dead, bodies...)
	return dead
}

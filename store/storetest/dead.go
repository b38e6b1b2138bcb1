package storetest

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/fingerprint"
	"github.com/pawl-dev/pawl/store"
)

var deadSentences = []Sentence{
	{Text: "A dead letter is complete: the message, its attempts and history, when, why, kind and fingerprint.",
		Name: "DeadLettersAreComplete", Test: func(t *T) {
			m := pawl.Message{Topic: t.Topic, ID: "mine", Key: []byte("k\xff"), Priority: 3, Body: []byte("body\x00"),
				Headers: map[string]string{"a": "b\x00"}}
			t.put(m)
			t.retry(t.claimOne(), 0)
			t.Advance(time.Minute)
			f := store.Failure{Kind: "Parser", Error: "line 7: unexpected \"x\"", Rule: "parser", Action: "dead",
				Worker: "w", Ran: time.Second}
			t.fails(t.claimOne(), store.Dead, f)
			dead := t.deadLetters(store.DeadFilter{})
			t.check(len(dead) == 1, "%d dead letters", len(dead))
			r := dead[0]
			t.wantMessage(r.Message, m)
			t.check(r.State == store.IsDead && r.Attempts == 2 && r.Rescues == 0 && r.Replays == 0 &&
				r.Kind == "Parser" && r.Reason == f.Error &&
				r.Fingerprint == fingerprint.Of("Parser", "line 7: unexpected \"x\""), "dead letter %+v", r)
			t.near("the time from storing to death", r.DeadAt.Sub(r.EnqueuedAt), time.Minute)
			t.check(len(r.History) == 2, "history %+v", r.History)
			h := r.History[1]
			t.check(h.Attempt == 2 && h.Kind == "Parser" && h.Rule == "parser" && h.Action == "dead" &&
				h.Worker == "w" && h.NextAt.IsZero(), "the last attempt %+v", h)
		}},
	{Text: "A dead letter is never delivered, and never expires.",
		Name: "DeadIsNeverDelivered", Test: func(t *T) {
			id := t.died(t.msg("a"), "K", "r")
			t.nothing()
			for range 3 {
				t.later(1000 * time.Hour)
			}
			t.wantDead("a")
			t.replay("", id)
			t.claims("a")
			t.wantDead()
		}},
	{Text: "Dead yields dead letters, the oldest death first, every one once.",
		Name: "DeadOldestFirst", Test: func(t *T) {
			ds := t.claimed("a", "b", "c")
			for _, i := range []int{2, 0, 1} {
				t.kill(ds[i], "dead")
				t.Advance(time.Second)
			}
			t.wantDead("c", "a", "b")
			const n = 1200
			t.Topic = "many"
			t.put(slices.Repeat([]pawl.Message{t.msg("x")}, n)...)
			for range n / 100 {
				t.settled(verdicts(store.Dead, t.claim(100))...)
				t.Advance(time.Second)
			}
			seen, last := map[string]bool{}, time.Time{}
			for _, r := range t.deadLetters(store.DeadFilter{Topic: t.Topic}) {
				t.check(!seen[r.ID] && !r.DeadAt.Before(last), "dead at %v after %v, seen before: %t", r.DeadAt, last,
					seen[r.ID])
				seen[r.ID], last = true, r.DeadAt
			}
			t.check(len(seen) == n, "%d of %d dead letters", len(seen), n)
		}},
	{Text: "Dead selects by topic, key, kind, text of the reason whatever the case, fingerprint and time of death; a limit ends it.",
		Name: "DeadFilters", Test: func(t *T) {
			start := t.storeNow()
			t.died(t.keyed("k", "a"), "Download", "Connection REFUSED by 10.0.0.1:80")
			t.Advance(10 * time.Minute)
			t.died(t.keyed("K", "b"), "Download", "connection refused by 10.0.0.2:81")
			t.Advance(10 * time.Minute)
			t.died(t.msg("c"), "Parser", "100% _bad_ 'input'")
			other := pawl.Message{Topic: "other", Key: []byte("k"), Body: []byte("d")}
			t.died(other, "Parser", "trouble")
			t.listsDead(store.DeadFilter{}, "a", "b", "c", "d")
			t.listsDead(store.DeadFilter{Topic: t.Topic}, "a", "b", "c")
			t.listsDead(store.DeadFilter{Topic: "none"})
			t.listsDead(store.DeadFilter{Key: []byte("k")}, "a", "d")
			t.listsDead(store.DeadFilter{Key: []byte("k"), Topic: t.Topic}, "a")
			t.listsDead(store.DeadFilter{Kind: "Parser"}, "c", "d")
			t.listsDead(store.DeadFilter{Kind: "parser"})
			t.listsDead(store.DeadFilter{Reason: "connection refused"}, "a", "b")
			t.listsDead(store.DeadFilter{Reason: "REFUSED BY 10.0.0.2"}, "b")
			t.listsDead(store.DeadFilter{Reason: "%"}, "c")
			t.listsDead(store.DeadFilter{Reason: "_"}, "c")
			t.listsDead(store.DeadFilter{Reason: "'"}, "c")
			t.listsDead(store.DeadFilter{Reason: "\\"})
			t.listsDead(store.DeadFilter{Fingerprint: fingerprint.Of("Download", "connection refused by 10.9.9.9:1")}, "b")
			t.listsDead(store.DeadFilter{Since: start.Add(5 * time.Minute)}, "b", "c", "d")
			t.listsDead(store.DeadFilter{Until: start.Add(5 * time.Minute)}, "a")
			t.listsDead(store.DeadFilter{Since: start.Add(5 * time.Minute), Until: start.Add(15 * time.Minute)}, "b")
			t.listsDead(store.DeadFilter{Limit: 3}, "a", "b", "c")
			t.listsDead(store.DeadFilter{Kind: "Parser", Limit: 1}, "c")
			died := t.deadLetters(store.DeadFilter{Limit: 2})[1].DeadAt
			t.listsDead(store.DeadFilter{Since: died, Limit: 1}, "b") // at or after
			t.listsDead(store.DeadFilter{Until: died}, "a")           // before
		}},
	{Text: "A limit of dead letters counts what is yielded: what is purged meanwhile takes no other letter's place.",
		Name: "DeadLimitCountsWhatIsYielded", Test: func(t *T) {
			const n, limit = 3000, 1500
			t.importDead(each(numbered("letter", n), func(id string) store.Record { return letter(t.msg("x"), id) })...)
			ids := idsOf(t.deadLetters(store.DeadFilter{Topic: t.Topic, Limit: limit, Brief: true}))
			seen := map[string]bool{}
			for r, err := range t.dead().Dead(t.ctx(), store.DeadFilter{Topic: t.Topic, Limit: limit}) {
				t.must(err)
				if seen[r.ID] = true; len(seen) == 1 {
					t.noneRefused(t.dead().Purge(t.ctx(), ids[limit/15:]...))
				}
			}
			t.check(len(seen) == limit, "listed %d dead letters; the limit is %d, and %d did not change", len(seen),
				limit, n-limit+limit/15)
		}},
	{Text: "A replayed message joins the tail of its lane.",
		Name: "ReplayJoinsTheTail", Test: func(t *T) {
			d := t.headOf("k", "a", "b", "c")
			t.kill(d, "dead")
			b := t.claimRun(1, 1) // the lane is held while the message comes back
			t.replay("", d.ID)
			t.lane("k", "d")
			t.ack(b...)
			t.claims("c", "a", "d")
		}},
	{Text: "A replayed message ranks as if it were appended at the replay.",
		Name: "ReplayRanksAnew", Needs: needs(store.CanPriority), Test: func(t *T) {
			id := t.died(t.msg("old"), "K", "r")
			t.Advance(30 * time.Minute)
			t.put(t.msg("young"))
			t.Advance(time.Minute)
			t.replay("", id)
			t.Advance(time.Minute)
			t.put(t.msg("last"))
			ds := t.claims("young", "old", "last")
			t.near("what it waited since the replay", ds[1].Waited, time.Minute)
		}},
	{Text: "Messages of one replay are appended in the order of the ids.",
		Name: "ReplayKeepsTheOrderOfIDs", Test: func(t *T) {
			var ids []string
			for _, b := range numbered("", 6) {
				ids = append(ids, t.died(t.keyed("k", b), "K", "r"))
			}
			t.replay("", ids[4], ids[0], ids[5], ids[2], ids[1], ids[3])
			t.claims("4", "0", "5", "2", "1", "3")
		}},
	{Text: "A replayed message keeps id and history; attempts and rescues count anew, replays are counted and told.",
		Name: "ReplayCountsAnew", Needs: needs(store.CanLookup), Test: func(t *T) {
			t.claimed("a")
			t.expire()
			t.retry(t.claimOne(), 0)
			d := t.claimOne()
			t.wantCounts(d, 2, 1)
			t.kill(d, "dead")
			before := t.inState(d.ID, store.IsDead)
			t.replay("", d.ID)
			r := t.inState(d.ID, store.Waiting)
			t.check(r.Attempts == 0 && r.Rescues == 0 && r.Lonely == 0 && r.Replays == 1 &&
				len(r.History) == len(before.History) && r.DeadAt.IsZero() && r.Kind == "" && r.Fingerprint == "" &&
				r.Reason != before.Reason, "replayed message %+v", r)
			again := t.claimOne()
			t.wantCounts(again, 1, 0)
			t.check(d.Replays == 0 && again.Replays == 1,
				"a delivery says that it was replayed %d times before, and %d times after", d.Replays, again.Replays)
		}},
	{Text: "A replayed message is no suspect, and needs three lonely rescues to die again.",
		Name: "ReplayForgivesTheSuspect", Needs: needs(store.CanDeadline), Test: func(t *T) {
			id := t.put(t.msg("a"))[0]
			t.rescued(store.SolitaryAfter, "a")
			t.rescuedAlone(store.LonelyRescues, "a")
			t.nothing()
			t.replay("", id)
			t.put(t.msg("b"))
			t.ack(t.claims("a", "b")[1]) // no suspect
			t.expire()
			t.rescued(store.SolitaryAfter-1, "a")
			t.rescuedAlone(store.LonelyRescues-1, "a")
			t.wantBodies(t.claimAlone(), "a")
			t.wantDead()
		}},
	{Text: "A replay with a topic sends the dead letters there instead, creating it; no dead letter stays behind.",
		Name: "ReplayToAnotherTopic", Test: func(t *T) {
			a, b := t.died(t.keyed("k", "a"), "K", "r"), t.died(t.msg("b"), "K", "r")
			t.replay("other", a, b)
			t.nothing()
			t.wantDead()
			t.Topic = "other"
			t.lane("k", "c")
			ds := t.claims("a", "c", "b")
			t.check(ds[0].Topic == "other" && ds[0].ID == a && string(ds[0].Key) == "k", "replayed delivery %+v",
				ds[0].Message)
			t.kill(ds[0], "again")
			t.wantDead("a")
			t.invalid(errOf(t.dead().Replay(t.ctx(), "no topic name", a)))
			t.wantDead("a")
		}},
	{Text: "A replay of what is no dead letter is refused with ErrNotFound, and the others are replayed.",
		Name: "ReplayRefuses", Test: func(t *T) {
			dead := t.died(t.msg("dead"), "K", "r")
			ids := t.put(t.msg("leased"), t.msg("waiting"))
			t.wantBodies(t.claim(1), "leased")
			t.refusing(t.dead().Replay(t.ctx(), "", ids[0], dead, ids[1], "none", dead)).want(store.ErrNotFound,
				ids[0], ids[1], "none")
			t.claims("waiting", "dead")
			t.noneRefused(t.dead().Replay(t.ctx(), ""))
		}},
	{Text: "Purge removes dead letters for good, and returns those that were not there.",
		Name: "PurgeRemovesForGood", Test: func(t *T) {
			a, b := t.died(t.msg("a"), "K", "r"), t.died(t.msg("b"), "K", "r")
			live := t.put(t.msg("live"))[0]
			t.refusing(t.dead().Purge(t.ctx(), a, live, "none", a)).want(store.ErrNotFound, live, "none")
			t.wantDead("b")
			t.refusing(t.dead().Purge(t.ctx(), a)).want(store.ErrNotFound, a)
			t.refusing(t.dead().Replay(t.ctx(), "", a, b)).want(store.ErrNotFound, a)
			t.claims("live", "b")
		}},
}

// died appends a message and lets it die.
func (t *T) died(m pawl.Message, kind pawl.Kind, reason string) string {
	id := t.put(m)[0]
	d := t.claimWith(store.Lease{For: lease}, store.Want{Topic: m.Topic, Limit: 1})[0]
	t.check(d.ID == id, "claimed %q instead of %q", d.Body, m.Body)
	t.fails(d, store.Dead, store.Failure{Kind: kind, Error: reason, Rule: "rule", Action: "dead", Worker: "w",
		Ran: time.Second})
	return id
}

package storetest

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var uniqueSentences = []Sentence{
	{Text: "The first message with a unique key wins; the others are not stored, and their receipts name the winner.",
		Name: "UniqueFirstWins", Test: func(t *T) {
			first := t.put(t.unique("a", "u", pawl.Unique{}))[0]
			t.duplicate(first, t.unique("b", "u", pawl.Unique{}))
			t.duplicate(first, t.unique("c", "u", pawl.Unique{For: time.Hour}))
			t.put(t.unique("d", "v", pawl.Unique{}))
			t.claims("a", "d")
		}},
	{Text: "A unique key counts within one batch, too.",
		Name: "UniqueWithinABatch", Test: func(t *T) {
			rs := t.append(t.unique("a", "u", pawl.Unique{}), t.unique("b", "v", pawl.Unique{}),
				t.unique("c", "u", pawl.Unique{}), t.msg("d"))
			t.check(rs[0].DuplicateOf == "" && rs[1].DuplicateOf == "" && rs[2].DuplicateOf == rs[0].ID &&
				rs[3].DuplicateOf == "", "receipts %+v; want the third a duplicate of the first", rs)
			t.claims("a", "b", "d")
		}},
	{Text: "Without a scope a unique key counts within its topic.",
		Name: "UniqueScopeIsTheTopic", Test: func(t *T) {
			first := t.put(t.unique("a", "u", pawl.Unique{}))[0]
			t.Topic += "2"
			second := t.put(t.unique("b", "u", pawl.Unique{}))[0]
			t.duplicate(second, t.unique("c", "u", pawl.Unique{}))
			t.Topic = "topic"
			t.duplicate(first, t.unique("d", "u", pawl.Unique{}))
		}},
	{Text: "With a scope a unique key counts across topics, and differs from the same key in another scope or in a topic of that name.",
		Name: "UniqueScopeCrossesTopics", Test: func(t *T) {
			first := t.put(t.unique("a", "u", pawl.Unique{Scope: "s"}))[0]
			t.put(t.unique("b", "u", pawl.Unique{Scope: "S"}), t.unique("c", "u", pawl.Unique{}),
				t.unique("d", "u", pawl.Unique{Scope: t.Topic}))
			t.put(t.unique("e", "bc", pawl.Unique{Scope: "a"}), t.unique("f", "c", pawl.Unique{Scope: "ab"}))
			t.put(t.unique("g", "\x00b", pawl.Unique{Scope: "a"}), t.unique("h", "b", pawl.Unique{Scope: "a\x00"}))
			t.Topic += "2"
			t.duplicate(first, t.unique("x", "u", pawl.Unique{Scope: "s"}))
		}},
	{Text: "Without a duration the key is taken while the message lives: waiting, delayed, leased, retried; an ack frees it.",
		Name: "UniqueWhileItLives", Test: func(t *T) {
			u := t.unique("a", "u", pawl.Unique{})
			first := t.put(u)[0]
			t.duplicate(first, u)
			d := t.claimOne()
			t.duplicate(first, u)
			t.retry(d, time.Minute)
			t.duplicate(first, u)
			t.Advance(2 * time.Minute)
			t.duplicate(first, u)
			t.ack(t.claimOne())
			second := t.put(u)[0]
			t.duplicate(second, u)
		}},
	{Text: "Death frees a key that was taken while the message lives.",
		Name: "UniqueFreedByDeath", Needs: needs(store.CanDeadLetters), Test: func(t *T) {
			u := t.unique("a", "u", pawl.Unique{})
			t.put(u)
			t.kill(t.claimOne(), "dead")
			t.duplicate(t.put(u)[0], u)
		}},
	{Text: "Cancel frees a key that was taken while the message lives.",
		Name: "UniqueFreedByCancel", Needs: needs(store.CanLookup), Test: func(t *T) {
			u := t.unique("a", "u", pawl.Unique{})
			t.cancel(t.put(u)...)
			t.duplicate(t.put(u)[0], u)
		}},
	{Text: "With a duration the key is taken for that long from when the message was stored, whatever becomes of it.",
		Name: "UniqueForADuration", Test: func(t *T) {
			u := t.unique("a", "u", pawl.Unique{For: 10 * time.Minute})
			first := t.put(u)[0]
			t.duplicate(first, u)
			t.ack(t.claimOne())
			t.Advance(9 * time.Minute)
			t.duplicate(first, u)
			t.Advance(2 * time.Minute)
			second := t.put(u)[0]
			t.duplicate(second, u)
			t.Advance(11 * time.Minute) // the second still waits, but its time is over
			t.put(u)
			t.claims("a", "a")
		}},
	{Text: "Forever never ends: acked long ago, the message still has its key.",
		Name: "UniqueForever", Test: func(t *T) {
			u := t.unique("a", "u", pawl.Unique{For: pawl.Forever})
			first := t.put(u)[0]
			t.ack(t.claimOne())
			for range 3 {
				t.Advance(1000 * time.Hour)
				t.duplicate(first, u)
			}
			t.nothing()
		}},
	{Text: "UntilClaimed takes the key until the message is claimed, alone or within a run, and never again: given back, retried or rescued, the message leaves the key to whoever comes.",
		Name: "UniqueUntilClaimed", Test: func(t *T) {
			ring := func(body string) pawl.Message { return t.unique(body, "u", pawl.Unique{For: pawl.UntilClaimed}) }
			first := t.put(ring("a"))[0]
			t.duplicate(first, ring("x"))
			t.duplicate(first, t.unique("x", "u", pawl.Unique{}))
			d := t.claimOne()
			second := t.put(ring("b"))[0]
			t.duplicate(second, ring("x"))
			t.retry(d, 0)
			t.duplicate(second, ring("x"))
			ds := t.claims("a", "b")
			t.check(ds[0].Unique == (pawl.Unique{Key: "u", For: pawl.UntilClaimed}), "unique key %+v", ds[0].Unique)
			third := t.put(ring("c"))[0]
			t.ack(ds...)
			t.duplicate(third, ring("x"))
			t.release(t.claimOne(), 0)
			t.put(ring("d"))
			t.claims("c", "d")
			t.expire()
			t.duplicate(t.put(ring("e"))[0], ring("x"))
		}},
	{Text: "A message that is never claimed frees a key that it has until then when it is cancelled; a replay takes it again.",
		Name: "UniqueUntilClaimedIsFreed", Needs: needs(store.CanDeadLetters, store.CanLookup), Test: func(t *T) {
			ring := t.unique("a", "u", pawl.Unique{For: pawl.UntilClaimed})
			t.cancel(t.put(ring)...)
			first := t.put(ring)[0]
			t.kill(t.claimOne(), "dead")
			t.noneRefused(t.dead().Replay(t.ctx(), "", first))
			t.duplicate(first, ring)
			run := []pawl.Message{t.keyed("k", "b"), t.keyed("k", "c")}
			for i := range run {
				run[i].Unique = pawl.Unique{Key: run[i].Unique.Key + "run" + string(run[i].Body), For: pawl.UntilClaimed}
				t.put(run[i])
			}
			t.claims("a", "b", "c")
			t.put(append(run, ring)...)
		}},
	{Text: "A key that outlives its message refuses that, too: sent again after its ack, under the same id, it is a duplicate.",
		Name: "UniqueRefusesItsOwner", Test: func(t *T) {
			for _, u := range []pawl.Unique{{For: pawl.Forever}, {For: time.Hour}} {
				own := t.unique("a", "u"+u.For.String(), u)
				own.ID = "own" + u.For.String()
				t.put(own)
				t.ack(t.claimOne())
				other := own
				other.ID = ""
				for i, r := range t.append(other, own, own, other) {
					t.check(r.DuplicateOf == own.ID, "receipt %d: %+v; want a duplicate of %q", i, r, own.ID)
				}
			}
			t.nothing()
		}},
	{Text: "Two unique keys are equal only if all their bytes are.",
		Name: "UniqueKeysAreBytes", Test: func(t *T) {
			for _, k := range lookalikes() {
				t.put(t.unique("key", string(k), pawl.Unique{}), t.unique("scope", "u",
					pawl.Unique{Scope: "s" + string(k)}))
			}
			for _, k := range lookalikes() {
				rs := t.append(t.unique("again", string(k), pawl.Unique{}))
				t.check(rs[0].DuplicateOf != "", "unique key %q was taken twice", k)
			}
		}},
	{Text: "A duplicate takes no unique key and no id, changes nothing of the winner, and is counted.",
		Name: "DuplicateStoresNothing", Needs: needs(store.CanTopics), Test: func(t *T) {
			first := t.put(t.unique("a", "u", pawl.Unique{}))[0]
			m := t.unique("b", "u", pawl.Unique{})
			m.ID = "mine"
			t.duplicate(first, m)
			m = t.unique("c", "w", pawl.Unique{})
			m.ID = first
			r := t.append(m)[0]
			t.check(r.ID == first && r.DuplicateOf == first, "receipt %+v; want a duplicate of %q by its id", r, first)
			t.ack(t.claims("a")...)
			m = t.unique("d", "w", pawl.Unique{})
			m.ID = "mine"
			t.put(m)
			t.claims("d")
			st := t.stats()
			t.check(st.Duplicates == 2 && st.Appended == 2, "%d duplicates, %d appended; want 2 and 2", st.Duplicates,
				st.Appended)
		}},
	{Text: "A replayed message has its unique key again.",
		Name: "ReplayTakesTheKeyAgain", Needs: needs(store.CanDeadLetters), Test: func(t *T) {
			u := t.unique("a", "u", pawl.Unique{})
			id := t.put(u)[0]
			t.kill(t.claimOne(), "dead")
			t.replay("", id)
			t.duplicate(id, u)
			t.ack(t.claimOne())
			t.put(u)
		}},
	{Text: "A message that is replayed to another topic has its unique key there, and not where it came from; one with a scope has it as before.",
		Name: "ReplayTakesTheKeyOfItsTopic", Needs: needs(store.CanDeadLetters), Test: func(t *T) {
			u, scoped := t.unique("a", "u", pawl.Unique{}), t.unique("b", "u", pawl.Unique{Scope: "s"})
			ids := t.put(u, scoped)
			for _, d := range t.claims("a", "b") {
				t.kill(d, "dead")
			}
			t.replay("other", ids...)
			t.duplicate(ids[1], scoped)
			t.put(u)
			t.Topic = "other"
			there := t.unique("c", "u", pawl.Unique{})
			t.duplicate(ids[0], there)
			t.ack(t.claims("a", "b")...)
			t.put(there)
			t.put(scoped)
		}},
	{Text: "A dead letter whose unique key another message has taken since is not replayed: ErrConflict.",
		Name: "ReplayConflicts", Needs: needs(store.CanDeadLetters), Test: func(t *T) {
			u := t.unique("a", "u", pawl.Unique{})
			dead := t.put(u)[0]
			t.put(t.msg("other"))
			ds := t.claim(2)
			t.kill(ds[0], "dead")
			t.kill(ds[1], "dead")
			second := t.put(u)[0]
			t.refusing(t.dead().Replay(t.ctx(), "", dead, ds[1].ID)).want(store.ErrConflict, dead)
			t.claims("a", "other")
			t.check(len(t.deadLetters(store.DeadFilter{})) == 1, "the refused dead letter is gone")
			t.duplicate(second, u)
		}},
}

func (t *T) unique(body, key string, u pawl.Unique) pawl.Message {
	m := t.msg(body)
	u.Key = key
	m.Unique = u
	return m
}

// duplicate appends a message that must be refused in favour of winner.
func (t *T) duplicate(winner string, m pawl.Message) {
	r := t.append(m)[0]
	t.check(r.DuplicateOf == winner && r.Err == nil && r.ID != "" && (m.ID != "" || r.ID != winner),
		"receipt %+v; want a duplicate of %q under an id of its own", r, winner)
}

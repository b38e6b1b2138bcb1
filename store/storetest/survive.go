package storetest

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var surviveSentences = []Sentence{
	{Text: "What Append returned for survives the process, in order, byte for byte.",
		Name: "AppendIsDurable", Test: func(t *T) {
			m := pawl.Message{Topic: t.Topic, ID: "mine", Key: []byte("k\x00"), Priority: 3, Body: []byte("body\xff"),
				Headers: map[string]string{"a": "b"}}
			t.put(m)
			t.lane("l", "a", "b", "c")
			if t.has(store.CanDelay) {
				t.put(t.delayed(t.msg("late"), 10*time.Minute))
			}
			t.restart()
			ds := t.claim(10)
			t.wantBodies(ds, "body\xff", "a", "b", "c")
			t.wantMessage(ds[0].Message, m)
			t.ack(ds...)
			if t.has(store.CanDelay) {
				t.later(11*time.Minute, "late")
			}
		}},
	{Text: "What Settle returned for survives the process: acked stays gone, and the rest of its run is there.",
		Name: "SettleIsDurable", Test: func(t *T) {
			t.lane("k", "a", "b", "c")
			t.put(t.msg("d"))
			ds := t.claims("a", "b", "c", "d")
			t.ack(ds[0])
			t.release(ds[1], 0)
			t.ack(ds[3])
			t.restart()
			t.ack(t.claims("b", "c")...)
			t.restart()
			t.nothing()
		}},
	{Text: "Retries survive the process: they are due when they were, and have the attempts that they had.",
		Name: "RetriesSurvive", Needs: needs(store.CanAttempts), Test: func(t *T) {
			t.lane("k", "a", "b", "c")
			t.put(t.msg("d"))
			ds := t.claims("a", "b", "c", "d")
			t.ack(ds[0])
			t.retry(ds[1], 10*time.Minute)
			t.ack(ds[3])
			t.restart()
			t.nothing()
			t.Advance(11 * time.Minute)
			t.wantCounts(t.claims("b", "c")[0], 2, 0)
		}},
	{Text: "Leases survive the process that holds them: they can be settled, and end by themselves.",
		Name: "LeasesSurvive", Needs: needs(store.CanDeadline, store.CanAnyProcess), Test: func(t *T) {
			t.lane("k", "a", "b", "c")
			t.put(t.msg("d"))
			ds := t.claims("a", "b", "c", "d")
			t.restart()
			t.nothing()
			t.ack(ds[0])
			t.extend(lease, ds[1])
			t.nothing()
			t.ack(ds[1], ds[2])
			t.later(expiry, "d")
			t.lost(verdict(ds[3], store.Ack))
		}},
	{Text: "Attempts, rescues and history survive the process.",
		Name: "AttemptsSurvive", Needs: needs(store.CanAttempts, store.CanDeadline, store.CanLookup), Test: func(t *T) {
			id := t.put(t.msg("a"))[0]
			t.retry(t.claimOne(), 0)
			t.claimOne()
			t.restart()
			t.expire()
			d := t.claims("a")[0]
			t.wantCounts(d, 2, 1)
			t.restart()
			r := t.inState(id, store.Leased)
			t.check(r.Attempts == 1 && r.Rescues == 1 && len(r.History) == 2 && r.History[0].Error == "failed",
				"record %+v", r)
		}},
	{Text: "A message that kills its process every time dies, over the restarts.",
		Name: "LonelyRescuesSurvive", Needs: needs(store.CanAttempts, store.CanDeadline, store.CanDeadLetters),
		Test: func(t *T) {
			t.put(t.msg("a"))
			for range store.SolitaryAfter + store.LonelyRescues {
				t.wantBodies(t.claimAlone(), "a")
				t.restart()
				t.expire()
			}
			t.nothing()
			t.wantDead("a")
		}},
	{Text: "Unique keys and ids survive the process.",
		Name: "UniqueSurvives", Needs: needs(store.CanUnique), Test: func(t *T) {
			u := t.unique("a", "u", pawl.Unique{For: pawl.Forever})
			v := t.unique("b", "v", pawl.Unique{})
			ids := t.put(u, v)
			t.ack(t.claimOne())
			t.restart()
			t.duplicate(ids[0], u)
			t.duplicate(ids[1], v)
			t.duplicate(ids[1], t.withID(ids[1], "c"))
		}},
	{Text: "A call whose outcome is unknown can be repeated in a new process, with the same batch id.",
		Name: "BatchesSurvive", Needs: needs(store.CanRepeatBatch), Test: func(t *T) {
			batch := store.NewBatch(t.msg("a"), t.msg("b"), pawl.Message{})
			first := t.appendBatch(batch)
			d := t.claimOne()
			settled := store.NewBatch(emitting(d, t.msg("child")), verdict(d, store.Retry))
			if !t.has(store.CanEmitAtomic) {
				settled.Items[0].Emit = nil
			}
			want := t.settleBatch(settled)
			t.restart()
			again := t.appendBatch(batch)
			t.sameReceipts(again, first)
			refused := t.settleBatch(settled)
			t.sameRefusals(refused, want)
			if t.has(store.CanEmitAtomic) {
				t.claims("b", "child")
			} else {
				t.claims("b")
			}
		}},
	{Text: "Settings, pauses and totals survive the process.",
		Name: "TopicsSurvive", Needs: needs(store.CanTopics), Test: func(t *T) {
			want := t.declare(store.Declaration{Order: store.OrderNone, Deadline: time.Minute, Park: new(true),
				Retain: new(time.Hour)})
			t.put(t.msg("a"), t.msg("b"))
			t.ack(t.claimOne())
			t.pause(0)
			before := t.stats()
			t.restart()
			t.wantSettings(want)
			t.wantStats(before)
			t.nothing()
			p := t.stats().Paused
			t.check(p != nil && p.By == "ann", "pause %+v", p)
			t.resume()
			t.claims("b")
		}},
	{Text: "Dead letters survive the process.",
		Name: "DeadLettersSurvive", Needs: needs(store.CanDeadLetters), Test: func(t *T) {
			t.died(t.keyed("k", "a"), "K", "why")
			before := t.wantDead("a")[0]
			t.restart()
			after := t.wantDead("a")[0]
			t.check(after.Reason == before.Reason && after.Kind == before.Kind && after.DeadAt.Equal(before.DeadAt) &&
				len(after.History) == 1, "dead letter %+v; it was %+v", after, before)
			t.replay("", after.ID)
			t.restart()
			t.claims("a")
			t.wantDead()
		}},
}

// restart ends the process, as it were, and starts another: without Close first,
// where the harness can, and then with it.
func (t *T) restart() {
	if t.Crash != nil {
		t.Store = t.Crash(t)
	}
	t.Store = t.Reopen(t)
}

package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var tailSentences = []Sentence{
	{Text: "In a topic that retries at the tail, a retried message blocks nobody, and joins the tail of its lane when it is due.",
		Name: "RetryGoesToTheTail", Test: func(t *T) {
			t.retry(t.headOf("k", "a", "b"), 4*time.Minute)
			t.lane("k", "c")
			t.ack(t.claims("b", "c")...)
			t.nothing()
			t.lane("k", "d")
			t.Advance(5 * time.Minute)
			t.wantBodies(t.claimRun(1, 1), "d") // and the store notices what is due
			t.lane("k", "e")
			ds := t.later(expiry, "d", "a", "e")
			t.wantCounts(ds[0], 1, 1)
			t.wantCounts(ds[1], 2, 0)
			t.retry(ds[1], time.Minute)
			t.ack(ds[0], ds[2])
			t.ack(t.later(2*time.Minute, "a")...)
			t.nothing()
		}},
	{Text: "A retry at the tail after no time is claimable at once, behind what is there and before what comes.",
		Name: "TailRetryAtOnce", Test: func(t *T) {
			t.retry(t.headOf("k", "a", "b"), 0)
			t.lane("k", "c")
			t.retry(t.claims("b", "a", "c")[2], 0) // the last of its run
			t.lane("k", "d")
			t.claims("b", "a", "c", "d")
		}},
	{Text: "Retries at the tail and delayed messages join their lane in the order in which they are due.",
		Name: "TailRetryAmongTheDelayed", Test: func(t *T) {
			t.lane("k", "b", "d")
			t.put(t.delayed(t.keyed("k", "a"), 2*time.Minute), t.delayed(t.keyed("k", "c"), 6*time.Minute))
			ds := t.claims("b", "d")
			t.settled(retrying(ds[0], 4*time.Minute, 0), retrying(ds[1], 8*time.Minute, 0))
			t.nothing()
			t.later(10*time.Minute, "a", "b", "c", "d")
		}},
	{Text: "A retry at the tail leaves its run open, unless it is the last of it, and its own token is good for nothing then.",
		Name: "TailRetryLeavesTheRunOpen", Test: func(t *T) {
			t.lane("k", "a", "b", "c", "d")
			ds := t.claimRun(10, 3)
			t.retry(ds[1], 10*time.Minute)
			t.nothing()
			t.lost(verdict(ds[1], store.Ack))
			t.ack(ds[0])
			t.nothing()
			t.retry(ds[2], 12*time.Minute)
			t.lost(verdict(ds[2], store.Ack))
			t.ack(t.claims("d")...)
			ds = t.later(15*time.Minute, "b", "c")
			t.settled(retrying(ds[0], time.Minute, 0), verdict(ds[1], store.Ack)) // in one batch
			t.lane("k", "e")
			t.ack(t.claims("e")...)
			t.later(2*time.Minute, "b")
		}},
	{Text: "A retry at the tail with Hold ends its run and closes the lane for Hold; the message waits for After alone.",
		Name: "TailRetryHolds", Test: func(t *T) {
			ds := t.claimedRun("k", "a", "b", "c")
			t.settled(retrying(ds[0], 8*time.Minute, 4*time.Minute))
			t.lost(verdict(ds[1], store.Ack))
			t.nothing()
			t.later(3 * time.Minute)
			ds = t.later(2*time.Minute, "b", "c")
			t.ack(ds[0])
			t.settled(retrying(ds[1], time.Minute, 10*time.Minute))
			t.Advance(5 * time.Minute) // both are due, and the lane is held
			t.nothing()
			t.lane("k", "d")
			t.later(6*time.Minute, "c", "a", "d")
		}},
	{Text: "A message that is retried at the tail keeps its id, body, attempts and the moment since which it was visible; throttled ones are counted apart.",
		Name: "TailRetryKeepsWhatItWas", Test: func(t *T) {
			m := t.keyed("k", "a")
			m.Headers = map[string]string{"h": "v"}
			id := t.put(m)[0]
			t.lane("k", "b")
			first := t.claimRun(1, 1)[0]
			t.retry(first, time.Minute)
			ds := t.later(2*time.Minute, "b", "a")
			throttled := retrying(ds[1], time.Minute, 0)
			throttled.Throttled = true
			t.settled(verdict(ds[0], store.Ack), throttled)
			t.Advance(2 * time.Minute)
			d := t.claims("a")[0]
			t.check(d.ID == id && string(d.Key) == "k" && d.Headers["h"] == "v" && d.EnqueuedAt.Equal(first.EnqueuedAt),
				"%+v came back as %+v", first, d)
			t.check(d.Attempt == 2 && d.Throttles == 1 && d.Rescues == 0,
				"attempt %d, %d throttles, %d rescues; want 2, 1, 0", d.Attempt, d.Throttles, d.Rescues)
			t.near("what a waited", d.Waited, 4*time.Minute)
		}},
	{Text: "A retry at the tail keeps the rank of its message.",
		Name: "TailRetryKeepsTheRank", Needs: needs(store.CanPriority), Test: func(t *T) {
			t.lane("k", "a")
			t.retry(t.claimOne(), 2*time.Minute)
			t.Advance(time.Minute)
			t.lane("l", "b")
			t.Advance(2 * time.Minute)
			t.lane("m", "c")
			t.claims("a", "b", "c")
		}},
	{Text: "A message that is retried at the tail is delayed until it is due, and its history says until when.",
		Name: "TailRetryIsOnRecord", Needs: needs(store.CanLookup), Test: func(t *T) {
			id := t.put(t.keyed("k", "a"))[0]
			t.lane("k", "b")
			before := t.get(id)
			now := t.storeNow()
			t.settled(retrying(t.claimRun(1, 1)[0], 5*time.Minute, 10*time.Minute))
			r := t.inState(id, store.Delayed)
			t.check(r.Attempts == 1 && len(r.History) == 1 && r.Reason == "failed" && r.Rank == before.Rank, "%+v", r)
			t.near("the time of the retry", r.NotBefore.Sub(now), 5*time.Minute)
			t.near("the time on record", r.History[0].NextAt.Sub(now), 5*time.Minute)
			t.later(6 * time.Minute)
			t.later(5*time.Minute, "b", "a")
			r = t.inState(id, store.Leased)
			t.check(r.Attempts == 1 && len(r.History) == 1, "%+v", r)
		}},
	{Text: "OldestWaiting finds what was retried at the tail, behind younger messages, too.",
		Name: "TailRetryIsOldest", Needs: needs(store.CanFigures), Test: func(t *T) {
			t.lane("k", "a")
			t.retry(t.claimOne(), 2*time.Minute)
			t.Advance(time.Minute)
			t.lane("k", "b", "c")
			t.near("the oldest", t.stats().OldestWaiting, 0)
			t.Advance(2 * time.Minute)
			t.wantBodies(t.claimRun(1, 1), "b") // and the store notices what is due
			t.near("the oldest", t.stats().OldestWaiting, 3*time.Minute)
			t.expire()
			ds := t.claimRun(1, 1)
			t.wantBodies(ds, "b")
			t.retry(ds[0], 10*time.Minute)
			t.wantBodies(t.claims("c", "a")[1:], "a")
			got := t.stats()
			t.check(got.OldestWaiting == 0 && got.Delayed == 1, "the oldest of none has waited %v, %d are delayed",
				got.OldestWaiting, got.Delayed)
		}},
	{Text: "Where the topic retries at the tail, a message that is a lane of its own waits for the longer of After and Hold.",
		Name: "TailIsForSharedLanes", Test: func(t *T) {
			ds := t.claimed("a", "b")
			t.settled(retrying(ds[0], 2*time.Minute, 6*time.Minute), retrying(ds[1], 2*time.Minute, 0))
			t.ack(t.later(4*time.Minute, "b")...)
			t.ack(t.later(4*time.Minute, "a")...)
		}},
	{Text: "Where the topic retries at the tail, released and rescued messages keep the head of their lane.",
		Name: "TailLeavesTheHeadToOthers", Test: func(t *T) {
			t.lane("k", "a", "b")
			t.release(t.claims("a", "b")[0], 2*time.Minute)
			t.nothing()
			t.later(3*time.Minute, "a", "b")
			t.later(expiry, "a", "b")
		}},
	{Text: "A suspect that is retried at the tail is a run by itself when its turn comes.",
		Name: "SuspectAtTheTail", Test: func(t *T) {
			t.lane("k", "a", "b")
			for range store.SuspectAfter {
				t.wantBodies(t.claimRun(1, 1), "a")
				t.expire()
			}
			t.retry(t.claims("a")[0], time.Minute)
			t.Advance(2 * time.Minute)
			t.wantBodies(t.claimRun(1, 1), "b") // and the store notices what is due
			t.lane("k", "c")
			t.expire()
			t.ack(t.claims("b")...)
			d := t.claims("a")
			t.check(d[0].Rescues == store.SuspectAfter, "%d rescues; want %d", d[0].Rescues, store.SuspectAfter)
			t.ack(d...)
			t.claims("c")
		}},
}

var tailSettingSentences = []Sentence{
	{Text: "A delivery says whether a retry of it goes to the tail, as the topic has it when it is claimed.",
		Name: "TailIsToldWithTheDelivery", Test: func(t *T) {
			told := func(want bool) {
				t.put(t.keyed("k", "a"), t.msg("b"))
				ds := t.claims("a", "b")
				if ds[0].Tail != want || ds[1].Tail {
					t.Fatalf("deliveries say %t and %t; want %t and false", ds[0].Tail, ds[1].Tail, want)
				}
				t.ack(ds...)
			}
			told(false)
			t.tailing()
			told(true)
			to := t.settings()
			to.Tail = false
			to = t.alter(to)
			told(false)
			to.Tail, to.Order = true, store.OrderNone
			t.alter(to)
			told(false)
		}},
	{Text: "A topic retries at the tail if it is declared so, by all processes alike, and not at the tail while it parks.",
		Name: "TailIsDeclared", Test: func(t *T) {
			d := store.Declaration{Name: t.Topic, Tail: new(true)}
			want := t.declare(d)
			t.check(want.Tail && want.Version == 1, "declared %+v", want)
			for _, again := range []store.Declaration{d, {}, {Park: new(false)}} {
				t.declare(again)
			}
			t.put(t.msg("a"))
			err := errOf(t.topics().Declare(t.ctx(), store.Declaration{Name: t.Topic, Tail: new(false)}))
			t.conflict(err)
			text := fmt.Sprint(err)
			t.check(strings.Contains(text, "retry is tail, not head"), "%s", text)
			t.invalid(errOf(t.topics().Declare(t.ctx(), store.Declaration{Name: "other", Tail: new(true), Park: new(true)})))
			parks := want
			parks.Park = true
			t.invalid(errOf(t.topics().Alter(t.ctx(), parks)))
			t.wantSettings(want)
		}},
	{Text: "Where retried messages go changes only while the topic is empty.",
		Name: "TailChangesOnEmptyOnly", Test: func(t *T) {
			t.put(t.msg("a"))
			t.conflict(errOf(t.topics().Declare(t.ctx(), store.Declaration{Name: t.Topic, Tail: new(true)})))
			t.wantSettings(store.NewTopic(t.Topic))
			t.declare(store.Declaration{Tail: new(false)})
			to := t.settings()
			to.Tail = true
			t.conflict(errOf(t.topics().Alter(t.ctx(), to)))
			t.ack(t.claims("a")...)
			t.alter(to)
			t.retry(t.headOf("k", "b", "c"), time.Minute)
			t.claims("c")
			to = t.settings()
			to.Tail = false
			t.conflict(errOf(t.topics().Alter(t.ctx(), to))) // what is retried counts
		}},
}

func (t *T) tailing() {
	t.declare(store.Declaration{Tail: new(true)})
}

// retrying is a retry with both of its waits.
func retrying(d pawl.Delivery, after, hold time.Duration) store.Settlement {
	return store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Retry, After: after, Hold: hold,
		Failure: failure("failed")}
}

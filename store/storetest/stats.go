package storetest

import (
	"reflect"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var statsSentences = []Sentence{
	{Text: "Stats returns the figures of every topic, or of those named, by name.",
		Name: "StatsByName", Test: func(t *T) {
			for _, topic := range []string{"b", "C", "a", "d"} {
				t.put(pawl.Message{Topic: topic})
			}
			names := func(topics ...string) []string {
				all, err := t.topics().Stats(t.ctx(), topics...)
				t.must(err)
				return each(all, func(st store.TopicStats) string { return st.Name })
			}
			got := names()
			t.check(slices.Equal(got, []string{"C", "a", "b", "d"}), "stats of all topics: %q", got)
			got = names("d", "a", "none")
			t.check(slices.Equal(got, []string{"a", "d"}), "stats of d, a and one that is not there: %q", got)
		}},
	{Text: "The figures count what is waiting, delayed, leased and dead.",
		Name: "StatsCountStates", Needs: needs(store.CanDelay, store.CanDeadLetters), Test: func(t *T) {
			t.lane("k", "a", "b")
			t.lane("l", "c", "d")
			t.put(t.delayed(t.msg("late"), time.Hour), t.msg("e"), t.msg("f"), t.msg("g"))
			ds := t.heads(4)
			t.wantBodies(ds, "a", "c", "e", "f")
			t.retry(ds[0], time.Hour)
			t.kill(ds[2], "dead")
			// b, d, g; late, a; c, f; e
			t.wantStats(store.TopicStats{Appended: 8, Waiting: 3, Delayed: 2, Leased: 2, Dead: 1, Retried: 1})
			t.hold(ds[1], time.Hour)
			// b, g; late, a, d; f; e
			t.wantStats(store.TopicStats{Appended: 8, Waiting: 2, Delayed: 3, Leased: 1, Dead: 1, Retried: 1, Acked: 1})
		}},
	{Text: "The totals count what was appended, acked, cancelled, purged, refused as duplicate, retried and rescued.",
		Name:  "StatsCountTotals",
		Needs: needs(store.CanDeadLetters, store.CanLookup, store.CanUnique, store.CanDeadline), Test: func(t *T) {
			first := t.put(t.unique("a", "u", pawl.Unique{}), t.msg("b"), t.msg("c"))[0]
			t.duplicate(first, t.unique("x", "u", pawl.Unique{}))
			ds := t.claims("a", "b", "c")
			t.retry(ds[0], 0)
			t.kill(ds[1], "dead")
			t.release(ds[2], 0)
			t.wantStats(store.TopicStats{Appended: 3, Duplicates: 1, Retried: 1, Dead: 1, Waiting: 2})
			t.noneRefused(t.dead().Purge(t.ctx(), ds[1].ID))
			t.cancel(ds[2].ID)
			t.claims("a")
			t.expire()
			t.ack(t.claims("a")...)
			t.wantStats(store.TopicStats{Appended: 3, Duplicates: 1, Retried: 1, Rescues: 1, Purged: 1, Cancelled: 1,
				Acked: 1})
		}},
	{Text: "Appended = Acked + Cancelled + Purged + Waiting + Delayed + Leased + Dead + Resolved, at every step.",
		Name: "StatsAddUp", Needs: needs(store.CanDeadLetters, store.CanLookup, store.CanDelay), Test: func(t *T) {
			add := func() {
				st := t.stats()
				t.wantStats(st)
			}
			t.lane("k", numbered("", 6)...)
			t.put(t.delayed(t.msg("late"), time.Minute), t.msg("x"))
			add()
			ds := t.claim(4)
			add()
			t.settled(verdict(ds[0], store.Ack), verdict(ds[1], store.Dead))
			add()
			t.Advance(2 * time.Minute)
			ds = t.claim(100)
			add()
			for i, d := range ds {
				t.settle(verdict(d, []store.Verdict{store.Ack, store.Retry, store.Dead, store.Release}[i%4]))
				add()
			}
			for _, r := range t.list(store.Filter{Topic: t.Topic}) {
				t.cancel(r.ID)
				add()
			}
			for i, r := range t.deadLetters(store.DeadFilter{}) {
				if i%2 == 0 {
					t.replay("", r.ID)
				} else {
					t.noneRefused(t.dead().Purge(t.ctx(), r.ID))
				}
				add()
			}
		}},
	{Text: "A replay appends nothing, unless it goes to another topic: then it is purged here and appended there.",
		Name: "ReplayAppendsNothing", Needs: needs(store.CanDeadLetters), Test: func(t *T) {
			ds := t.claimed("a", "b")
			t.kill(ds[0], "dead")
			t.kill(ds[1], "dead")
			t.replay("", ds[0].ID)
			t.replay("other", ds[1].ID)
			t.wantStats(store.TopicStats{Appended: 2, Waiting: 1, Purged: 1})
			t.Topic = "other"
			t.wantStats(store.TopicStats{Appended: 1, Waiting: 1})
			t.ack(t.claims("b")...)
			t.wantStats(store.TopicStats{Appended: 1, Acked: 1})
		}},
	{Text: "OldestWaiting is how long the oldest waiting message has been visible; zero when nothing waits.",
		Name: "OldestWaitingIsTold", Test: func(t *T) {
			t.put(t.msg("a"))
			t.Advance(3 * time.Minute)
			t.put(t.msg("b"))
			t.Advance(time.Minute)
			t.near("the oldest", t.stats().OldestWaiting, 4*time.Minute)
			t.ack(t.claimOne())
			t.near("the oldest", t.stats().OldestWaiting, time.Minute)
			t.ack(t.claimOne())
			got := t.stats().OldestWaiting
			t.check(got == 0, "the oldest of none has waited %v", got)
		}},
	{Text: "Stuck counts the leased messages whose lease is older than half of what its hard deadline allows.",
		Name: "StuckAreCounted", Needs: needs(store.CanDeadline, store.CanLookup), Test: func(t *T) {
			t.declare(store.Declaration{Deadline: 10 * time.Minute})
			t.lane("k", "a", "b", "c")
			long := store.Lease{For: 10 * time.Minute}
			t.wantBodies(t.claimWith(long, store.Want{Topic: t.Topic, Limit: 2}), "a", "b")
			t.put(t.msg("d"), t.msg("e"))
			t.wantBodies(t.claimWith(long, store.Want{Topic: t.Topic, Limit: 1}), "d")
			t.Advance(4 * time.Minute)
			t.wantBodies(t.claimWith(long, store.Want{Topic: t.Topic, Limit: 1}), "e")
			stuck := func(want int64) {
				st := t.stats()
				t.check(st.Leased == 4 && st.Stuck == want, "%d leased, %d of them stuck; want 4 and %d", st.Leased,
					st.Stuck, want)
			}
			stuck(0)
			t.Advance(2 * time.Minute)
			stuck(3)
			for _, r := range t.list(store.Filter{Topic: t.Topic, State: store.Leased}) {
				if stuck := r.Lease.Stuck(t.storeNow()); stuck == (string(r.Body) == "e") {
					t.Fatalf("the lease of %q is stuck: %t", r.Body, stuck)
				}
			}
		}},
	{Text: "LastAck is when a message of the topic was last acked, by the store's clock; zero when none was.",
		Name: "LastAckIsTold", Test: func(t *T) {
			t.put(t.msg("a"), t.keyed("k", "b"), t.keyed("k", "c"), t.msg("d"))
			if at := t.stats().LastAck; !at.IsZero() {
				t.Fatalf("acked at %v, though nothing was", at)
			}
			ds := t.claim(100)
			for _, d := range ds[:3] {
				t.ack(d)
				at := t.stats().LastAck
				t.near("the time since the last ack", t.storeNow().Sub(at), 0)
				t.Advance(30 * time.Second)
				now := t.stats().LastAck
				t.check(now.Equal(at), "acked at %v, and a little later at %v", at, now)
			}
			t.Topic = "other"
			t.put(t.msg("x"))
			if at := t.stats().LastAck; !at.IsZero() {
				t.Fatalf("acked in another topic: %v", at)
			}
		}},
	{Text: "Totals count since the topic was created, also when it runs empty.",
		Name: "EmptyTopicKeepsItsTotals", Test: func(t *T) {
			for range 3 {
				t.put(t.msg("a"), t.keyed("k", "b"))
				t.ack(t.claims("a", "b")...)
			}
			t.wantStats(store.TopicStats{Appended: 6, Acked: 6})
		}},
}

// wantStats compares figures; the settings, the pause, what depends on
// the clock and the deaths are left out.
func (t *T) wantStats(want store.TopicStats) {
	got := t.stats()
	t.check(got.Appended == got.Acked+got.Cancelled+got.Purged+got.Waiting+got.Delayed+got.Leased+got.Dead+got.Resolved,
		"the figures do not add up: %+v", got)
	want.Topic, want.Paused, want.OldestWaiting, want.Deaths = got.Topic, got.Paused, got.OldestWaiting, got.Deaths
	want.LastAck, want.Stuck = got.LastAck, got.Stuck
	t.check(reflect.DeepEqual(got, want), "figures %+v\nwant    %+v", got, want)
}

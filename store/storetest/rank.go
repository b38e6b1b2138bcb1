package storetest

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var rankSentences = []Sentence{
	{Text: "Ties of rank go in the order of appending.",
		Name: "FirstComeFirstServed", Test: func(t *T) {
			want := numbered("", 30)
			for i := 0; i < len(want); i += 3 { // batches, with keys among them
				t.put(t.msg(want[i]), t.keyed("k"+want[i+1], want[i+1]), t.msg(want[i+2]))
			}
			t.wantBodies(t.claim(10), want[:10]...)
			t.wantBodies(t.claim(20), want[10:]...)
		}},
	{Text: "Of what was appended together, the higher priority goes first.",
		Name: "PriorityGoesFirst", Test: func(t *T) {
			t.put(t.prio(0, "bulk"), t.prio(50, "normal"), t.prio(100, "critical"), t.prio(51, "better"), t.prio(1, "worse"))
			t.wantBodies(t.claim(2), "critical", "better")
			t.wantOneByOne("normal", "worse", "bulk")
		}},
	{Text: "A claim takes the best rank of its topic, however much is waiting.",
		Name: "BestRankFirst", Test: func(t *T) {
			for range 20 { // enough for a page or two of any index
				t.put(each(numbered("bulk", 50), func(body string) pawl.Message { return t.prio(10, body) })...)
			}
			t.claim(100)
			t.put(t.prio(11, "first"))
			t.put(t.prio(100, "vip"), t.prio(12, "second"))
			t.wantBodies(t.claim(3), "vip", "second", "first")
			t.wantBodies(t.claim(1), "bulk0")
		}},
	{Text: "A wait of the topic's Ageing is worth one point of priority.",
		Name: "AgeingIsExact", Needs: needs(store.CanTopics), Test: func(t *T) {
			t.declare(store.Declaration{Ageing: 10 * time.Minute})
			t.put(t.prio(10, "old"))
			t.Advance(49 * time.Minute)
			t.put(t.prio(15, "young")) // 50 minutes ahead: it goes first
			t.Advance(2 * time.Minute)
			t.put(t.prio(15, "later")) // 51 minutes after the old one
			t.wantOneByOne("young", "old", "later")
		}},
	{Text: "At the default Ageing of two minutes waiting is worth half a point a minute.",
		Name: "AgeingIsTwoMinutesByDefault", Test: func(t *T) {
			t.put(t.prio(0, "old"))
			t.Advance(19 * time.Minute)
			t.put(t.prio(10, "young"))
			t.Advance(2 * time.Minute)
			t.put(t.prio(10, "later"))
			t.wantOneByOne("young", "old", "later")
		}},
	{Text: "Waiting stops counting at the cap of 100: of two at the cap, the one that reached it first goes first.",
		Name: "AgeingStopsAtTheCap", Test: func(t *T) {
			t.put(t.prio(99, "almost"))
			t.Advance(time.Minute)
			t.put(t.prio(100, "cap"))
			t.Advance(10 * time.Minute) // both at the cap now; cap was first
			t.put(t.prio(100, "late"))
			t.wantOneByOne("cap", "almost", "late")
		}},
	{Text: "A change of Ageing concerns messages appended afterwards.",
		Name: "AgeingChangesForLaterOnes", Needs: needs(store.CanTopics), Test: func(t *T) {
			at := t.declare(store.Declaration{Ageing: time.Minute})
			t.put(t.prio(0, "old"), t.prio(10, "old10"))
			at.Ageing = time.Hour
			t.alter(at)
			t.put(t.prio(99, "new"), t.prio(98, "new98")) // an hour, two hours; the old ones 100 and 90 minutes
			t.wantOneByOne("new", "old10", "old", "new98")
		}},
	{Text: "A change of Ageing does not concern what was appended before and is not visible yet.",
		Name: "AgeingOfTheDelayedStays", Needs: needs(store.CanTopics, store.CanDelay, store.CanLookup), Test: func(t *T) {
			at := t.declare(store.Declaration{Ageing: time.Minute})
			id := t.put(t.delayed(t.msg("a"), time.Minute))[0]
			before := t.get(id).Rank
			at.Ageing = time.Hour
			t.alter(at)
			t.later(2*time.Minute, "a")
			after := t.get(id).Rank
			t.check(after == before, "rank %d; it was %d", after, before)
		}},
	{Text: "Retry keeps the rank.",
		Name: "RetryKeepsTheRank", Test: func(t *T) {
			t.put(t.msg("a"))
			t.put(t.msg("b"))
			d := t.claimOne()
			t.Advance(30 * time.Minute)
			d = t.settleAgain(d)
			t.retry(d, 10*time.Minute)
			t.put(t.prio(5, "young"))
			t.Advance(11 * time.Minute)
			t.wantOneByOne("a", "b", "young")
		}},
	{Text: "Release keeps the rank, and so does a lease that ended.",
		Name: "ReleaseKeepsTheRank", Test: func(t *T) {
			t.put(t.msg("a"))
			t.Advance(time.Minute)
			t.put(t.msg("b"))
			a := t.claimOne()
			t.release(a, 0)
			t.wantBodies([]pawl.Delivery{t.claimOne()}, "a")
			t.expire()
			a = t.settleAgain(a)
			t.release(a, 10*time.Minute)
			t.put(t.prio(1, "young"))
			t.Advance(11 * time.Minute)
			t.wantOneByOne("a", "b", "young")
		}},
	{Text: "Rank counts from when a message becomes visible, not from when it was stored.",
		Name: "DelayedRankFromVisible", Needs: needs(store.CanDelay), Test: func(t *T) {
			t.put(t.delayed(t.msg("a"), time.Hour))
			t.Advance(30 * time.Minute)
			t.put(t.msg("b"))
			t.Advance(45 * time.Minute)
			t.put(t.msg("c"))
			t.wantOneByOne("b", "a", "c")
		}},
	{Text: "Priority orders lanes, never the members of one.",
		Name: "PriorityNeverReordersALane", Test: func(t *T) {
			for i, b := range numbered("", 5) {
				m := t.keyed("k", b)
				m.Priority = 25 * i
				t.put(m)
			}
			t.wantBodies(t.claimRun(2, 2), "0", "1")
			t.expire()
			t.wantOneByOne("0", "1", "2", "3", "4")
		}},
	{Text: "A lane stands at the rank of its first message, also after that changed.",
		Name: "LaneStandsAtItsFirst", Test: func(t *T) {
			vip := t.keyed("k", "vip")
			vip.Priority = 100
			t.put(vip)
			t.lane("k", "bulk")
			t.put(t.prio(50, "normal"))
			t.lane("l", "bulk2")
			t.wantOneByOne("vip", "normal", "bulk", "bulk2")
		}},
	// A store may serve a lane for a message in its middle, and up to that one.
	{Text: "A message that was behind others has its own rank when it is first, however its lane was served until then.",
		Name: "LaneStandsWhereItsFirstHasCome", Test: func(t *T) {
			t.put(t.prio(15, "first"))
			t.wantBodies(t.claimRun(1, 1), "first")
			var behind []pawl.Message
			for i, p := range []int{0, 10, 20, 100} {
				m := t.keyed("k", string(rune('a'+i)))
				m.Priority = p
				behind = append(behind, m)
			}
			t.put(behind...)
			first := t.claimRun(1, 1)
			t.wantBodies(first, "a")
			t.ack(first...)
			t.expire()
			var got []string
			for !slices.Contains(got, "c") {
				ds := t.claimRun(10, 2)
				t.check(len(ds) != 0, "claimed %q, and no more", got)
				got = append(got, bodiesOf(ds)...)
				t.ack(ds...)
			}
			t.put(t.prio(50, "other"))
			t.wantBodies(t.claimRun(1, 1), "d")
		}},
	{Text: "The rank is visible_from + (100 − priority) × Ageing, in microseconds.",
		Name: "RankIsOnRecord", Needs: needs(store.CanLookup, store.CanDelay), Test: func(t *T) {
			id := t.put(t.delayed(t.prio(30, "a"), time.Minute))[0]
			r := t.get(id)
			want := r.EnqueuedAt.Add(time.Minute).UnixMicro() + 70*store.DefaultAgeing.Microseconds()
			t.check(r.Rank == want, "rank %d; want %d", r.Rank, want)
		}},
}

func (t *T) prio(p int, body string) pawl.Message {
	m := t.msg(body)
	m.Priority = p
	return m
}

// workOff claims and acks until nothing is there, and returns what was claimed.
func (t *T) workOff(limit, run int) (all []pawl.Delivery) {
	for ds := t.claimRun(limit, run); len(ds) > 0; ds = t.claimRun(limit, run) {
		t.ack(ds...)
		all = append(all, ds...)
	}
	return all
}

func (t *T) wantOneByOne(want ...string) {
	got := bodiesOf(t.workOff(1, 1))
	t.check(slices.Equal(got, want), "claimed one by one: %q; want %q", got, want)
}

// settleAgain claims a message again whose lease has ended.
func (t *T) settleAgain(d pawl.Delivery) pawl.Delivery {
	ds := t.claim(1)
	t.wantBodies(ds, string(d.Body))
	return ds[0]
}

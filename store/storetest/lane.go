package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var laneSentences = []Sentence{
	{Text: "If Append(a) returned before Append(b) began, a is before b in their lane; so it is within one batch.",
		Name: "LaneKeepsItsOrder", Test: func(t *T) {
			t.put(t.keyed("k", "a"), t.keyed("k", "b"))
			t.lane("k", "c", "d")
			t.put(t.keyed("k", "e"), t.msg("other"), t.keyed("k", "f"))
			var got []string
			for range 6 {
				ds := t.claimRun(1, 1)
				if len(ds) == 1 && ds[0].Key == nil {
					t.ack(ds...)
					ds = t.claimRun(1, 1)
				}
				t.ack(ds...)
				got = append(got, bodiesOf(ds)...)
			}
			want := []string{"a", "b", "c", "d", "e", "f"}
			t.check(slices.Equal(got, want), "the lane gave %q; want %q", got, want)
		}},
	{Text: "While a run is leased nothing else of its lane is handed out.",
		Name: "LaneIsHeldOnce", Test: func(t *T) {
			t.lane("k", "a", "b", "c")
			first := t.claimRun(10, 1)
			t.wantBodies(first, "a")
			t.nothing()
			t.lane("k", "d")
			t.nothing()
			t.ack(first...)
			t.claims("b", "c", "d")
		}},
	// It interleaves appends to a busy lane with everything that frees it.
	{Text: "Whatever was appended to a lane while it was held is offered when the lane is free again.",
		Name: "LaneGoesOn", Test: func(t *T) {
			free := []func(pawl.Delivery){
				func(d pawl.Delivery) { t.ack(d) },
				func(d pawl.Delivery) { t.kill(d, "dead") },
				func(d pawl.Delivery) { t.retry(d, 0); t.ack(t.claimRun(1, 1)...) },
				func(d pawl.Delivery) { t.release(d, 0); t.ack(t.claimRun(1, 1)...) },
				func(pawl.Delivery) { t.expire(); t.ack(t.claimRun(1, 1)...) },
				func(d pawl.Delivery) { t.retry(d, time.Minute); t.Advance(2 * time.Minute); t.ack(t.claimRun(1, 1)...) },
			}
			const rounds = 24
			t.lane("k", "0")
			for i := range rounds {
				ds := t.claimRun(10, 1)
				t.wantBodies(ds, fmt.Sprint(i))
				if i%2 == 0 { // two more come while it is held, then none
					t.lane("k", fmt.Sprint(i+1), fmt.Sprint(i+2))
				}
				t.nothing()
				free[i%len(free)](ds[0])
			}
			t.claims(fmt.Sprint(rounds))
		}},
	{Text: "A message without a key is a lane of its own.",
		Name: "NoKeyIsALaneOfItsOwn", Test: func(t *T) {
			t.put(t.msg("a"), t.msg("b"), t.msg("c"))
			a, b := t.claimOne(), t.claimOne()
			t.retry(a, time.Minute)
			t.release(b, time.Minute)
			t.claims("c")
		}},
	{Text: "In a topic without order every message is a lane of its own, key or not.",
		Name: "NoOrderNoLanes", Needs: needs(store.CanTopics), Test: func(t *T) {
			t.unordered()
			t.lane("k", "a", "b", "c")
			t.retry(t.claimOne(), time.Minute)
			d := t.claimOne()
			t.wantBodies([]pawl.Delivery{d}, "b")
			t.check(string(d.Key) == "k", "the key became %q", d.Key)
			t.claims("c")
		}},
	{Text: "Keys are bytes: two keys share a lane only if all their bytes are equal.",
		Name: "KeysAreBytes", Test: func(t *T) {
			keys := lookalikes()
			for _, k := range keys {
				m := t.msg(string(k))
				m.Key = k
				t.put(m, m)
			}
			ds := t.claimRun(100, 1)
			t.check(len(ds) == len(keys), "%d lanes of %d different keys: %q", len(ds), len(keys), bodiesOf(ds))
			for _, d := range ds {
				t.check(string(d.Key) == string(d.Body), "key %q came back as %q", d.Body, d.Key)
			}
			t.nothing()
			t.ack(ds...)
			again := t.claimRun(100, 1)
			t.check(len(again) == len(keys), "%d of %d lanes went on", len(again), len(keys))
		}},
	{Text: "The same key in two topics is two lanes.",
		Name: "TopicsHaveTheirOwnLanes", Test: func(t *T) {
			t.claimedRun("k", "a")
			t.Topic += "2"
			t.claimedRun("k", "b")
		}},
	{Text: "A lane never blocks another, be it leased, waiting for a retry or held.",
		Name: "LaneNeverBlocksAnother", Test: func(t *T) {
			for _, key := range []string{"leased", "retried", "released", "dead", "free"} {
				t.lane(key, key+"0", key+"1")
			}
			ds := t.heads(4)
			t.wantBodies(ds, "leased0", "retried0", "released0", "dead0")
			t.retry(ds[1], time.Hour)
			t.release(ds[2], time.Hour)
			t.kill(ds[3], "dead")
			t.put(t.msg("own"))
			t.claims("dead1", "free0", "free1", "own")
		}},
	{Text: "A retried message keeps the head of its lane, which is closed until the retry is due.",
		Name: "RetryKeepsTheHead", Test: func(t *T) {
			t.retry(t.headOf("k", "a", "b"), 2*time.Minute)
			t.lane("k", "c")
			t.closedFor(2 * time.Minute)
			ds := t.claims("a", "b", "c")
			t.wantCounts(ds[0], 2, 0)
			t.wantCounts(ds[1], 1, 0)
		}},
	{Text: "A retry after no time is claimable at once, before what follows it.",
		Name: "RetryAtOnce", Test: func(t *T) {
			t.lane("k", "a", "b")
			t.put(t.msg("c"))
			ds := t.claims("a", "b", "c")
			t.retry(ds[0], 0)
			t.retry(ds[2], 0)
			t.claims("a", "b", "c")
		}},
	{Text: "A released message keeps the head of its lane, which is closed for After.",
		Name: "ReleaseKeepsTheHead", Test: func(t *T) {
			t.release(t.headOf("k", "a", "b"), 2*time.Minute)
			t.lane("k", "c")
			t.closedFor(2 * time.Minute)
			d := t.claimRun(1, 1)
			t.wantBodies(d, "a")
			t.release(d[0], 0)
			t.claims("a", "b", "c")
		}},
	{Text: "A dead head frees its lane.",
		Name: "DeadHeadFrees", Test: func(t *T) {
			t.lane("k", "a", "b", "c")
			ds := t.claimRun(1, 1)
			t.kill(ds[0], "dead")
			ds = t.claims("b", "c")
			t.kill(ds[0], "dead") // of a run of two
			t.claims("c")
		}},
	{Text: "An ack with Hold keeps the lane closed for that long, for what is there and for what comes.",
		Name: "HoldClosesTheLane", Needs: needs(store.CanDelay), Test: func(t *T) {
			t.hold(t.headOf("k", "a", "b"), 2*time.Minute)
			t.closedFor(2 * time.Minute)
			d := t.claims("b")
			t.hold(d[0], 2*time.Minute) // of the last message
			t.lane("k", "c")
			t.closedFor(2 * time.Minute)
			t.claims("c")
		}},
	{Text: "A retry, a release and a death with Hold close the lane for that long, too; where there is After as well, for the longer of both.",
		Name: "HoldGoesWithEveryVerdict", Needs: needs(store.CanDelay, store.CanDeadLetters), Test: func(t *T) {
			for _, v := range []store.Verdict{store.Retry, store.Release, store.Dead} {
				for _, after := range []time.Duration{0, time.Minute, 5 * time.Minute} {
					key, want := fmt.Sprint(v, after), []string{"a", "b"}
					s := verdict(t.headOf(key, "a", "b"), v)
					s.Hold, s.Failure = 3*time.Minute, failure("held")
					if v != store.Dead {
						s.After = after
					}
					t.settled(s)
					if v == store.Dead {
						want = want[1:]
						t.lane(key, "c")
						want = append(want, "c")
					}
					t.nothing()
					t.later(2 * time.Minute)
					t.Advance(2 * time.Minute)
					if v != store.Dead && after > 3*time.Minute {
						t.nothing()
						t.Advance(2 * time.Minute)
					}
					t.ack(t.claims(want...)...)
				}
			}
		}},
	{Text: "A hold closes the lane of the acked message and no other; without a key it closes nothing.",
		Name: "HoldHoldsNobodyElse", Needs: needs(store.CanDelay), Test: func(t *T) {
			t.lane("k", "a", "b")
			t.lane("l", "c")
			t.put(t.msg("d"), t.msg("e"))
			ds := t.heads(3)
			t.wantBodies(ds, "a", "c", "d")
			t.hold(ds[0], time.Hour)
			t.hold(ds[2], time.Hour)
			t.ack(ds[1])
			t.lane("l", "f")
			t.claims("e", "f")
		}},
}

// lookalikes are keys that some collation, trimming or encoding would merge.
func lookalikes() [][]byte {
	var keys [][]byte
	for _, k := range []string{
		"a", "A", "a ", " a", "a\x00", "\x00a", "\x00", "\x00\x00", "\x01", "0", "00", "\\x61", "61", "%61",
		"'a'", "\"a\"",
		"\u00e4", "a\u0308", "\u00c4", "ae", "\u00df", "ss", "\xff", "\xff\xfe", "\xc3", "\u212a", "k", "K", "\u0131",
		"i", "\ufeffa", "a\n", "a\t", "null", "NULL", "{}",
	} {
		keys = append(keys, []byte(k))
	}
	return keys
}

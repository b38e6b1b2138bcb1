package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var inspectSentences = []Sentence{
	{Text: "Get returns a message in whatever state: every message is in exactly one.",
		Name: "GetFindsEveryState", Needs: needs(store.CanDelay, store.CanDeadLetters), Test: func(t *T) {
			ids := t.put(t.keyed("k", "a"), t.keyed("k", "b"), t.delayed(t.msg("late"), time.Hour), t.msg("c"), t.msg("d"))
			for i, want := range []store.State{store.Waiting, store.Waiting, store.Delayed, store.Waiting, store.Waiting} {
				t.inState(ids[i], want)
			}
			ds := t.claims("a", "b", "c", "d")
			t.inState(ids[0], store.Leased)
			t.inState(ids[1], store.Leased)
			t.retry(ds[0], time.Hour)
			t.inState(ids[0], store.Delayed)
			t.inState(ids[1], store.Waiting)
			t.kill(ds[2], "dead")
			r := t.inState(ids[3], store.IsDead)
			t.check(!r.DeadAt.IsZero() && r.Kind == "Test" && r.Reason == "dead", "dead letter %+v", r)
			t.ack(ds[3])
			t.gone(ids[4])
		}},
	{Text: "Get of what was acked or never here is ErrNotFound.",
		Name: "GetIsNotFound", Test: func(t *T) {
			id := t.put(t.msg("a"))[0]
			t.ack(t.claimOne())
			for _, id := range []string{id, pawl.NewID(), "none", "", "\x00", "\xff", "'"} {
				t.gone(id)
			}
		}},
	{Text: "A record holds the message as it was appended, delay and unique key included.",
		Name: "RecordIsWhole", Needs: needs(store.CanDelay, store.CanUnique), Test: func(t *T) {
			m := pawl.Message{
				Topic: t.Topic, ID: "mine", Key: []byte("k\x00"), Priority: 3, Body: []byte("body\xff"),
				Headers: map[string]string{"a": "b"},
				Delay:   time.Minute, Unique: pawl.Unique{Key: "u\x00", Scope: "s", For: time.Hour},
			}
			t.put(m)
			check := func() {
				r := t.get("mine")
				t.wantMessage(r.Message, m)
				t.check(r.Unique == m.Unique && r.Delay == m.Delay, "record with delay %v, unique %+v; want %v, %+v",
					r.Delay, r.Unique, m.Delay, m.Unique)
			}
			check()
			t.Advance(2 * time.Minute)
			d := t.claimOne()
			check()
			if t.has(store.CanDeadLetters) {
				t.kill(d, "dead")
				check()
			}
		}},
	{Text: "The record of a leased message says who holds it, by which token, since when, until when and to which deadline at most.",
		Name: "RecordOfALease", Test: func(t *T) {
			id := t.put(t.msg("a"))[0]
			t.Advance(time.Minute)
			d := t.claimWith(store.Lease{For: lease, Owner: "host/ä 1"}, store.Want{Topic: t.Topic, Limit: 1})[0]
			r := t.inState(id, store.Leased)
			l := r.Lease
			t.check(l != nil && l.Owner == "host/ä 1" && l.Token == d.Token, "lease %+v; want that of token %v", l,
				d.Token)
			t.near("the time to the claim", l.StartedAt.Sub(r.EnqueuedAt), time.Minute)
			got := l.Until.Sub(l.StartedAt)
			t.check(got == lease, "leased for %v; want %v", got, lease)
			got = l.Deadline.Sub(l.StartedAt)
			t.check(got == store.DefaultDeadline, "deadline after %v; want %v", got, store.DefaultDeadline)
			t.Advance(time.Minute)
			t.extend(lease, d)
			t.near("the extended lease", t.get(id).Lease.Until.Sub(l.StartedAt), time.Minute+lease)
			t.release(d, 0)
			if r := t.inState(id, store.Waiting); r.Lease != nil {
				t.Fatalf("a released message with a lease %+v", r.Lease)
			}
		}},
	{Text: "A release by the token in a record takes the run back: its holder settles and extends nothing any more.",
		Name: "RecordedTokenSettles", Test: func(t *T) {
			ds := t.claimedRun("k", "a", "b")
			solo := t.put(t.msg("c"))[0]
			ds = append(ds, t.claimOne())
			for _, id := range []string{ds[0].ID, solo} {
				l := t.inState(id, store.Leased).Lease
				t.settled(store.Settlement{Token: l.Token, ID: id, Verdict: store.Release,
					Failure: store.Failure{Error: "taken back"}})
			}
			r := t.inState(ds[0].ID, store.Waiting)
			t.check(r.Reason == "released: taken back" && r.Attempts == 0 && r.Rescues == 0, "taken back: %+v", r)
			for _, d := range ds {
				t.lost(verdict(d, store.Ack))
				lost, err := t.Store.Extend(t.ctx(), lease, d.Token)
				t.must(err)
				t.check(len(lost) == 1, "the lease of %q was extended", d.Body)
			}
			t.claimsMany(100, 3)
		}},
	{Text: "The record of a message that is put off, retried, released or held says until when.",
		Name: "RecordSaysNotBefore", Needs: needs(store.CanDelay), Test: func(t *T) {
			now := t.storeNow()
			late := t.put(t.delayed(t.msg("late"), 20*time.Minute))[0]
			ids := t.put(t.msg("retried"), t.msg("released"), t.keyed("k", "acked"), t.keyed("k", "held"))
			ds := t.heads(3)
			t.retry(ds[0], 30*time.Minute)
			t.release(ds[1], 40*time.Minute)
			t.hold(ds[2], 50*time.Minute)
			for i, id := range []string{late, ids[0], ids[1], ids[3]} {
				r := t.inState(id, store.Delayed)
				t.near(fmt.Sprintf("the wait of %q", r.Body), r.NotBefore.Sub(now), time.Duration(20+10*i)*time.Minute)
			}
			if r := t.get(t.put(t.msg("now"))[0]); !r.NotBefore.IsZero() {
				t.Fatalf("what can be claimed at once says not before %v", r.NotBefore)
			}
		}},
	{Text: "What is due waits: it is not delayed any more.",
		Name: "DueIsWaiting", Needs: needs(store.CanDelay), Test: func(t *T) {
			ids := t.put(t.delayed(t.msg("late"), time.Minute), t.msg("retried"))
			t.retry(t.claimOne(), time.Minute)
			t.Advance(2 * time.Minute)
			t.inState(ids[0], store.Waiting)
			t.inState(ids[1], store.Waiting)
			n := len(t.list(store.Filter{State: store.Delayed}))
			t.check(n == 0, "%d messages are listed as delayed; all are due", n)
		}},
	{Text: "What stands behind another message of its lane waits, whatever the first does.",
		Name: "BehindIsWaiting", Test: func(t *T) {
			ids := t.put(t.keyed("k", "a"), t.keyed("k", "b"))
			d := t.claimRun(1, 1)[0]
			t.inState(ids[1], store.Waiting)
			t.retry(d, time.Hour)
			t.inState(ids[1], store.Waiting)
			r := t.get(ids[1])
			t.check(r.NotBefore.IsZero(), "what stands behind says not before %v", r.NotBefore)
		}},
	{Text: "List yields messages by rank within a topic.",
		Name: "ListByRank", Needs: needs(store.CanPriority), Test: func(t *T) {
			t.put(t.prio(10, "c"), t.prio(100, "a"), t.prio(10, "d"), t.prio(0, "f"), t.prio(50, "b"), t.prio(1, "e"))
			t.lists(store.Filter{Topic: t.Topic}, "a", "b", "c", "d", "e", "f")
			t.claim(3)
			t.lists(store.Filter{Topic: t.Topic}, "a", "b", "c", "d", "e", "f")
		}},
	{Text: "List selects by topic, state, key and age; a zero field selects all, and a limit ends it.",
		Name: "ListFilters", Needs: needs(store.CanDelay), Test: func(t *T) {
			t.put(t.keyed("k", "a"))
			t.Advance(10 * time.Minute)
			t.put(t.keyed("K", "b"), t.keyed("k", "c"), t.msg("d"), t.delayed(t.msg("e"), time.Hour))
			t.put(pawl.Message{Topic: "other", Key: []byte("k"), Body: []byte("f")})
			t.claimRun(1, 1) // a
			t.lists(store.Filter{Topic: t.Topic}, "a", "b", "c", "d", "e")
			t.lists(store.Filter{Topic: "other"}, "f")
			t.lists(store.Filter{Topic: "none"})
			t.lists(store.Filter{Topic: t.Topic, State: store.Waiting}, "b", "c", "d")
			t.lists(store.Filter{Topic: t.Topic, State: store.Delayed}, "e")
			t.lists(store.Filter{State: store.Leased}, "a")
			t.lists(store.Filter{Topic: t.Topic, Key: []byte("k")}, "a", "c")
			t.lists(store.Filter{Topic: t.Topic, Key: []byte("k"), State: store.Waiting}, "c")
			t.lists(store.Filter{Key: []byte("none")})
			t.lists(store.Filter{OlderThan: 5 * time.Minute}, "a")
			t.lists(store.Filter{Topic: t.Topic, Limit: 2}, "a", "b")
			t.lists(store.Filter{Topic: t.Topic, State: store.Waiting, Limit: 1}, "b")
			bodies := recordBodies(t.list(store.Filter{}))
			slices.Sort(bodies)
			t.check(slices.Equal(bodies, []string{"a", "b", "c", "d", "e", "f"}), "without a filter: %q", bodies)
		}},
	{Text: "List by key finds every message of the key, waiting, leased, retried, delayed or due, whether keys make lanes or not.",
		Name: "ListFindsAKey", Needs: needs(store.CanDelay, store.CanTopics, store.CanDeadLetters), Test: func(t *T) {
			for _, order := range []store.Order{store.OrderKey, store.OrderNone} {
				t.Topic = "by" + string(order)
				t.declare(store.Declaration{Name: t.Topic, Order: order})
				t.put(t.keyed("k", "dead"))
				t.kill(t.claimOne(), "dead")
				t.put(t.keyed("k", "retried"))
				t.retry(t.claimOne(), time.Hour)
				t.put(t.keyed("other", "leased by another"))
				t.claimOne()
				t.put(t.delayed(t.keyed("k", "due"), time.Minute), t.delayed(t.keyed("k", "delayed"), 2*time.Hour),
					t.delayed(t.keyed("other", "x"), time.Minute))
				t.put(t.keyed("other", "y"), t.keyed("k", "waiting"))
				t.Advance(2 * time.Minute)
				for _, f := range []store.Filter{{Topic: t.Topic, Key: []byte("k")},
					{Topic: t.Topic, Key: []byte("k"), Limit: 10}} {
					bodies := recordBodies(t.list(f))
					slices.Sort(bodies)
					want := []string{"delayed", "due", "retried", "waiting"}
					t.check(slices.Equal(bodies, want), "order %s, %+v: listed %q; want %q", order, f, bodies, want)
				}
				got := t.list(store.Filter{Topic: t.Topic, Key: []byte("none")})
				t.check(len(got) == 0, "listed %d messages of a key that has none", len(got))
			}
		}},
	{Text: "List yields no dead letters.",
		Name: "ListLeavesOutTheDead", Needs: needs(store.CanDeadLetters), Test: func(t *T) {
			t.put(t.msg("a"), t.msg("b"))
			t.kill(t.claimOne(), "dead")
			t.lists(store.Filter{}, "b")
			t.lists(store.Filter{State: store.IsDead})
		}},
	{Text: "List reads in pages, and yields every message once.",
		Name: "ListIsComplete", Test: func(t *T) {
			ids := t.fill(2500)
			seen := map[string]int{}
			for _, r := range t.list(store.Filter{Topic: t.Topic}) {
				seen[r.ID]++
			}
			for _, id := range ids {
				t.check(seen[id] == 1, "message %s was listed %d times", id, seen[id])
			}
			n := len(t.list(store.Filter{Topic: t.Topic, Limit: 1234}))
			t.check(n == 1234, "listed %d; the limit is 1234", n)
		}},
	{Text: "What changes while List runs may or may not be seen; what does not change is yielded once.",
		Name: "ListBearsChanges", Test: func(t *T) {
			ids := t.fill(2500)
			touched := map[string]bool{}
			for i, id := range ids {
				touched[id] = i%5 == 0
			}
			seen, next := map[string]int{}, 0
			for r, err := range t.inspector().List(t.ctx(), store.Filter{Topic: t.Topic}) {
				t.must(err)
				if seen[r.ID]++; len(seen)%100 != 0 {
					continue
				}
				var gone []string // ahead and behind
				for ; len(gone) < 50 && next < len(ids); next += 5 {
					gone = append(gone, ids[next])
				}
				t.cancel(gone...)
				t.put(t.prio(next%3, "new"))
			}
			for id, changed := range touched {
				t.check((changed || seen[id] == 1) && seen[id] <= 1, "message %s was listed %d times", id, seen[id])
			}
		}},
	{Text: "A limit counts what is yielded: what is gone meanwhile takes no other message's place.",
		Name: "ListLimitCountsWhatIsYielded", Test: func(t *T) {
			const limit = 500
			t.fill(2500)
			for _, f := range []store.Filter{{Limit: limit}, {Topic: t.Topic, State: store.Waiting, Limit: limit}} {
				all := t.list(f)
				seen := map[string]bool{}
				for r, err := range t.inspector().List(t.ctx(), f) {
					t.must(err)
					if seen[r.ID] = true; len(seen) > 1 {
						continue
					}
					t.cancel(idsOf(all[limit/5:])...)
				}
				t.check(len(seen) == limit,
					"%+v: listed %d messages; the limit is %d, and more than that did not change", f, len(seen), limit)
			}
		}},
	{Text: "A listing can be left early, and the store used within it.",
		Name: "ListCanBeLeft", Test: func(t *T) {
			t.fill(1500)
			for range 20 {
				n := 0
				for r, err := range t.inspector().List(t.ctx(), store.Filter{}) {
					t.must(err)
					t.get(r.ID)
					t.put(t.msg("new"))
					if n++; n == 3 {
						break
					}
				}
			}
		}},
	{Text: "Cancel removes messages that are waiting or delayed; they are gone.",
		Name: "CancelRemovesWhatWaits", Needs: needs(store.CanDelay), Test: func(t *T) {
			ids := t.put(t.msg("a"), t.delayed(t.msg("late"), time.Minute), t.msg("b"), t.msg("c"))
			t.retry(t.claimOne(), time.Minute)
			t.cancel(ids[:3]...)
			for _, id := range ids[:3] {
				t.gone(id)
			}
			t.claims("c")
			t.later(90 * time.Second)
		}},
	{Text: "Cancel refuses what is leased or dead with ErrConflict and what is not there with ErrNotFound, and removes the rest.",
		Name: "CancelRefuses", Needs: needs(store.CanDeadLetters), Test: func(t *T) {
			ids := t.put(t.msg("leased"), t.msg("dead"), t.msg("a"), t.msg("b"))
			ds := t.claim(2)
			t.kill(ds[1], "dead")
			refused := t.refusing(t.inspector().Cancel(t.ctx(), append(ids[:3:3], "none", ids[2], "\x00")...))
			conflicts := refusals{t, map[string]error{}}
			for _, id := range ids[:2] {
				conflicts.of[id] = refused.of[id]
				delete(refused.of, id)
			}
			conflicts.want(store.ErrConflict, ids[:2]...)
			refused.want(store.ErrNotFound, "none", "\x00")
			t.claims("b")
			t.ack(ds[0])
			t.inState(ids[1], store.IsDead)
			t.noneRefused(t.inspector().Cancel(t.ctx()))
		}},
	{Text: "The lane of a cancelled message goes on without it: head, middle or tail.",
		Name: "CancelLeavesTheLaneInOrder", Test: func(t *T) {
			for _, gone := range [][]int{{0}, {1}, {4}, {0, 1}, {1, 3}, {0, 2, 4}, {3, 4}} {
				var ids, want []string
				for i, b := range numbered("", 5) {
					ids = append(ids, t.put(t.keyed("k", b))...)
					if !slices.Contains(gone, i) {
						want = append(want, b)
					}
				}
				for _, i := range gone {
					t.cancel(ids[i])
				}
				t.ack(t.claims(want...)...)
			}
			ids := append(t.put(t.keyed("k", "a")), t.put(t.keyed("k", "b"))...)
			d := t.claimRun(1, 1)
			t.cancel(ids[1]) // while the lane is held
			t.lane("k", "c")
			t.ack(d...)
			t.claims("c")
		}},
	{Text: "When a message is cancelled that waits for its retry, the lane goes on at once; a hold stays.",
		Name: "CancelOfAClosedHead", Needs: needs(store.CanDelay), Test: func(t *T) {
			ids := append(t.put(t.keyed("k", "a")), t.put(t.keyed("k", "b"))...)
			t.retry(t.claimRun(1, 1)[0], time.Hour)
			t.cancel(ids[0])
			t.ack(t.claims("b")...)
			id := t.put(t.keyed("k", "c"))[0]
			t.retry(t.claimOne(), time.Hour)
			t.cancel(id) // the only one
			t.ack(t.claimedRun("k", "d")...)
			held := append(t.put(t.keyed("h", "e"), t.keyed("h", "f")), t.put(t.keyed("h", "g"))...)
			t.hold(t.claimRun(1, 1)[0], time.Minute)
			t.cancel(held[1])
			t.nothing()
			t.later(2*time.Minute, "g")
		}},
	{Text: "What is delayed, by its sender or until a retry, can be claimed once it is run now, with its attempts and in its place.",
		Name: "RunNowIsDue", Needs: needs(store.CanDelay), Test: func(t *T) {
			late := t.put(t.delayed(t.msg("late"), time.Hour), t.delayed(t.keyed("j", "joins"), 2*time.Hour))
			head := t.put(t.keyed("k", "a"))[0]
			t.lane("k", "b")
			t.retry(t.claimRun(1, 1)[0], time.Hour)
			waiting := t.put(t.keyed("j", "first"))[0]
			t.ack(t.claims("first")...)
			t.nothing()
			t.refusing(t.inspector().RunNow(t.ctx(), late[0], late[1], head, waiting)).want(store.ErrNotFound, waiting)
			for _, id := range append(late, head) {
				t.inState(id, store.Waiting)
			}
			ds := t.claims("a", "b", "late", "joins")
			for i := range ds {
				t.check(ds[i].Waited >= 0, "%s waited for %v", ds[i].Body, ds[i].Waited)
				if string(ds[i].Body) == "a" {
					t.wantCounts(ds[i], 2, 0)
				}
			}
		}},
	{Text: "RunNow leaves what waits as it is, also behind a message that waits for its retry, and refuses what is leased or dead.",
		Name: "RunNowRefuses", Needs: needs(store.CanDelay, store.CanDeadLetters), Test: func(t *T) {
			dead := t.died(t.msg("dead"), "K", "r")
			ids := append(t.put(t.keyed("k", "a")), t.put(t.keyed("k", "b"))...)
			t.retry(t.claimRun(1, 1)[0], time.Hour)
			leased := t.put(t.msg("leased"))[0]
			d := t.claims("leased")
			t.refusing(t.inspector().RunNow(t.ctx(), ids[1], leased, dead)).want(store.ErrConflict, leased, dead)
			t.refusing(t.inspector().RunNow(t.ctx(), ids[1], "none")).want(store.ErrNotFound, "none")
			t.inState(ids[0], store.Delayed)
			t.nothing()
			t.ack(d...)
			t.noneRefused(t.inspector().RunNow(t.ctx()))
		}},
	{Text: "Skip makes dead letters of what waits or is delayed, and the lane of a skipped head goes on at once.",
		Name: "SkipBuries", Needs: needs(store.CanDelay, store.CanDeadLetters), Test: func(t *T) {
			head := t.put(t.keyed("k", "a"))[0]
			t.lane("k", "b", "c")
			t.retry(t.claimRun(1, 1)[0], time.Hour)
			waiting := t.put(t.msg("waiting"))[0]
			late := t.put(t.delayed(t.keyed("k", "late"), time.Hour))[0]
			t.noneRefused(t.inspector().Skip(t.ctx(), "poison", head, waiting, late))
			for id, attempts := range map[string]int{head: 1, waiting: 0, late: 0} {
				r := t.inState(id, store.IsDead)
				t.check(r.Kind == pawl.KindSkipped && r.Reason == "poison" && r.Attempts == attempts &&
					len(r.History) == attempts, "%q is %s: %q after %d attempts, %d on record", r.Body, r.Kind,
					r.Reason, r.Attempts, len(r.History))
			}
			t.ack(t.claims("b", "c")...)
			t.replay("", head, late)
			t.claims("a", "late")
		}},
	{Text: "Skip refuses what is leased or dead with ErrConflict and what is not there with ErrNotFound.",
		Name: "SkipRefuses", Needs: needs(store.CanDeadLetters), Test: func(t *T) {
			dead := t.died(t.msg("dead"), "K", "r")
			leased := t.put(t.msg("leased"))[0]
			d := t.claims("leased")
			t.refusing(t.inspector().Skip(t.ctx(), "x", leased, dead)).want(store.ErrConflict, leased, dead)
			t.refusing(t.inspector().Skip(t.ctx(), "x", "none")).want(store.ErrNotFound, "none")
			t.ack(d...)
		}},
	{Text: "A lane that was cancelled empty takes messages again.",
		Name: "CancelledLaneStartsAnew", Test: func(t *T) {
			for range 3 {
				t.cancel(t.put(t.keyed("k", "a"), t.keyed("k", "b"))...)
				t.nothing()
			}
			t.claimedRun("k", "c", "d")
		}},
}

// fill appends n messages in a few lanes and returns their ids.
func (t *T) fill(n int) []string {
	msgs := make([]pawl.Message, n)
	for i := range msgs {
		msgs[i] = t.prio(i%3, fmt.Sprint(i))
		if i%2 == 0 {
			msgs[i].Key = fmt.Append(nil, i%14)
		}
	}
	return t.put(msgs...)
}

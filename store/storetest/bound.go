package storetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

var boundSentences = []Sentence{
	{Text: "An append to a topic with as many waiting messages as it may have is refused with a TopicFullError that says when to try again; nothing is stored.",
		Name: "FullTopicRefuses", Test: func(t *T) {
			t.bounded(2)
			t.put(t.msg("a"), t.msg("b"))
			for range 3 {
				t.full(t.append(t.msg("c")), 0)
			}
			t.Advance(aWhile)
			t.full(t.append(t.msg("c")), 0)
			t.claims("a", "b")
		}},
	{Text: "Of one call, what has room is stored: messages for other topics, and the first ones for a topic that is full then.",
		Name: "FullTopicConcernsNoOther", Test: func(t *T) {
			t.bounded(2)
			other := func(body string) pawl.Message { return pawl.Message{Topic: "other", Body: []byte(body)} }
			t.full(t.append(other("x"), t.msg("a"), t.msg("b"), t.msg("c"), other("y"), t.msg("d")), 3, 5)
			t.claims("a", "b")
			t.claimsOf("other", "x", "y")
		}},
	{Text: "Behind a message that was refused as too much, no other of its topic is stored in the same call.",
		Name: "FullTopicRefusesTheRest", Test: func(t *T) {
			t.bounded(3)
			t.lane("k", "a", "b")
			msgs := each(numbered("", 500), func(body string) pawl.Message { return t.keyed("k", body) })
			var rest []int
			for i := range msgs[1:] {
				rest = append(rest, i+1)
			}
			t.full(t.append(msgs...), rest...)
			t.claims("a", "b", "0")
		}},
	{Text: "What is claimed, acked, cancelled or dead makes room, which appends see within a second.",
		Name: "RoomIsSeenWithinASecond", Test: func(t *T) {
			t.bounded(2)
			t.put(t.msg("a"), t.msg("b"))
			room := func(what, body string) {
				t.Advance(aWhile)
				rs := t.append(t.msg(body), t.msg("too much"))
				t.check(rs[0].Err == nil && rs[1].Err != nil, "after %s: %+v", what, rs)
			}
			d := t.claimOne()
			room("a claim", "c")
			t.ack(d)
			t.Advance(aWhile)
			t.full(t.append(t.msg("too much")), 0) // what was acked had not been waiting
			t.ack(t.claimOne())
			room("an ack", "d")
			if t.has(store.CanDeadLetters) {
				t.kill(t.claimOne(), "no")
				room("a death", "e")
			}
			if t.has(store.CanLookup) {
				t.cancel(t.list(store.Filter{Topic: t.Topic, Limit: 1})[0].ID)
				room("a cancellation", "f")
			}
		}},
	{Text: "A delayed message takes room like one that waits.",
		Name: "DelayedTakesRoom", Needs: needs(store.CanDelay), Test: func(t *T) {
			t.bounded(2)
			late := t.msg("late")
			late.Delay = time.Hour
			t.put(late, t.msg("a"))
			t.full(t.append(t.msg("b")), 0)
			t.Advance(aWhile)
			t.full(t.append(late), 0)
			t.ack(t.claims("a")...)
			t.Advance(aWhile)
			t.full(t.append(t.msg("b"), t.msg("c")), 1)
		}},
	{Text: "What was not stored takes no room.",
		Name: "DuplicateTakesNoRoom", Needs: needs(store.CanUnique), Test: func(t *T) {
			t.bounded(3)
			m := t.withID("mine", "a")
			t.put(m)
			for range 10 {
				t.duplicate("mine", m)
			}
			t.put(t.msg("b"), t.msg("c"))
			t.full(t.append(t.msg("d")), 0)
		}},
	{Text: "What an ack emits is stored however full the topic is.",
		Name: "EmitIsNeverTooMuch", Needs: needs(store.CanEmitAtomic), Test: func(t *T) {
			t.put(pawl.Message{Topic: "source", Body: []byte("x")})
			t.bounded(1)
			t.put(t.msg("a"))
			ds := t.claimWith(store.Lease{For: lease}, store.Want{Topic: "source", Limit: 1})
			t.wantBodies(ds, "x")
			t.full(t.append(t.msg("b")), 0)
			t.emit(ds[0], t.msg("e1"), t.msg("e2"))
			t.Advance(aWhile)
			t.full(t.append(t.msg("b")), 0)
			t.claims("a", "e1", "e2")
		}},
	{Text: "Retried, released, rescued and replayed messages come back however full the topic is.",
		Name: "ReturnsAreNeverTooMuch", Needs: needs(store.CanDeadLetters), Test: func(t *T) {
			t.bounded(1)
			a := t.claimed("a")[0]
			refill := func(body string) {
				t.Advance(aWhile)
				t.full(t.append(t.msg(body), t.msg("too much")), 1)
			}
			refill("b")
			t.retry(a, 0)
			t.wantStates(2)
			b := t.heads(2)
			refill("c")
			t.release(b[0], 0)
			t.wantStates(2)
			t.expire() // the other one is rescued
			t.wantStates(3)
			t.full(t.append(t.msg("too much")), 0)
			ds := t.heads(3)
			t.kill(ds[0], "no")
			t.ack(ds[1:]...)
			refill("d")
			t.replay("", ds[0].ID)
			t.wantStates(2)
		}},
	{Text: "An append of what was accepted before is taken however full the topic is.",
		Name: "AcceptedIsNeverTooMuch", Test: func(t *T) {
			t.bounded(1)
			t.put(t.msg("a"))
			rs, err := t.Store.Append(backend.Accepted(t.ctx()), store.NewBatch(t.msg("b"), t.msg("c")))
			t.must(err)
			t.check(len(rs) == 2, "receipts %+v", rs)
			t.full(rs)
			t.full(t.append(t.msg("d")), 0)
			t.claims("a", "b", "c")
		}},
	{Text: "A repeated batch gets the same TopicFullError again, and with another id it may be taken.",
		Name: "FullIsRemembered", Needs: needs(store.CanRepeatBatch), Test: func(t *T) {
			t.bounded(1)
			batch := store.NewBatch(t.msg("a"), t.msg("b"))
			rs := t.appendBatch(batch)
			t.full(rs, 1)
			t.ack(t.claimOne())
			t.Advance(aWhile)
			again := t.appendBatch(batch)
			t.full(again, 1)
			t.check(again[0] == rs[0] && again[1].ID == rs[1].ID, "receipts %+v; want %+v", again, rs)
			t.nothing()
			t.put(batch.Items[1])
			t.claims("b")
		}},
	{Text: "Full tells of topics that are full what an append would be refused with, and nothing of others.",
		Name: "FullIsTold", Test: func(t *T) {
			t.bounded(1)
			first := t.Topic
			t.Topic = "roomy"
			t.bounded(100)
			t.put(t.msg("x"))
			t.put(pawl.Message{Topic: "free"})
			all := []string{first, "roomy", "free", "unheard of"}
			got := t.tellFull(all...)
			t.check(len(got) == 0, "%q are full; want none", got)
			t.Topic = first
			t.put(t.msg("a"))
			t.full(t.append(t.msg("b")), 0)
			got = t.tellFull(all...)
			t.check(slices.Equal(got, []string{first}), "%q are full; want %q", got, first)
			st := t.stats()
			t.check(st.Full(), "figures %+v", st)
			t.ack(t.claimOne())
			t.Advance(aWhile)
			got = t.tellFull(all...)
			t.check(len(got) == 0, "%q are full; want none", got)
		}},
	{Text: "A maximum of 0 is none: it may be declared, and ends another one.",
		Name: "NoBoundIsNone", Test: func(t *T) {
			t.bounded(0)
			t.put(t.msg("a"), t.msg("b"))
			to := t.settings()
			to.MaxWaiting = 1
			to = t.alter(to)
			t.full(t.append(t.msg("c")), 0)
			to.MaxWaiting = 0
			t.alter(to)
			t.put(t.msg("c"))
			t.claims("a", "b", "c")
		}},
	{Text: "A maximum of waiting messages is a setting like the others: declared, altered; a negative one is refused.",
		Name: "BoundIsDeclared", Test: func(t *T) {
			want := store.NewTopic(t.Topic)
			want.MaxWaiting, want.Version = 5, 1
			t.bounded(5)
			t.wantSettings(want)
			t.bounded(5)
			t.declare(store.Declaration{})
			t.wantSettings(want)
			t.invalid(errOf(t.topics().Declare(t.ctx(), store.Declaration{Name: t.Topic, MaxWaiting: new(int64(-1))})))
			t.wantSettings(want)
			t.bounded(6)
			to := want
			to.MaxWaiting, to.Version = 7, 2
			t.alter(to)
			want.MaxWaiting, want.Version = 7, 3
			t.wantSettings(want)
			st := t.stats()
			t.check(st.MaxWaiting == 7, "figures %+v", st)
		}},
	{Text: "A maximum that was set elsewhere is heeded by every process within two seconds, and what others append counts within one.",
		Name: "PeerHeedsTheBound", Needs: needs(store.CanProcesses), Test: func(t *T) {
			peer := t.peer()
			t.put(t.msg("a")) // so that it has the settings at hand
			peer.bounded(2)
			peer.full(peer.append(t.msg("b"), t.msg("c")), 1)
			t.within2Seconds("the peer's maximum is heeded", func() bool { return t.append(t.msg("more"))[0].Err != nil })
			t.workOff(100, 0)
			t.Advance(aWhile)
			peer.full(peer.append(t.msg("d"), t.msg("e"), t.msg("f")), 2)
			t.Advance(aWhile)
			t.full(t.append(t.msg("g")), 0)
		}},
	{Text: "An append in the caller's transaction is refused in the same way; what it can store is stored.",
		Name: "TxAppendIsBounded", Needs: needs(store.CanTxAppend), Test: func(t *T) {
			t.bounded(2)
			t.put(t.msg("a"))
			t.Tx(t, func(do appendTx) bool {
				t.full(t.putTx(do, t.msg("b"), t.msg("c"), pawl.Message{Topic: "other"}), 1)
				return true
			})
			t.claims("a", "b")
		}},
}

// bounded lets at most n messages wait in the topic.
func (t *T) bounded(n int64) { t.declare(store.Declaration{MaxWaiting: &n}) }

// aWhile is so long that every estimate is a new one.
const aWhile = 3 * time.Second

// full fails unless these receipts, and no others, say that the topic is full.
func (t *T) full(rs []store.Receipt, which ...int) {
	for i, r := range rs {
		e, full := errors.AsType[*store.TopicFullError](r.Err)
		t.check(full == slices.Contains(which, i), "message %d: %+v; %d are to be refused as too much", i, r,
			len(which))
		if !full {
			continue
		}
		t.check(e.Topic == t.Topic && e.RetryAfter >= store.MinRetryAfter && e.RetryAfter <= store.MaxRetryAfter,
			"message %d: %+v", i, e)
		t.check(r.ID != "" && r.Outcome() == store.Failed, "receipt %+v with outcome %q; want %q", r, r.Outcome(),
			store.Failed)
	}
}

// wantStates fails unless so many messages wait or are delayed.
func (t *T) wantStates(waiting int64) {
	st := t.stats()
	t.check(st.Waiting+st.Delayed == waiting, "%d messages wait; want %d: %+v", st.Waiting+st.Delayed, waiting, st)
}

// tellFull asks for the topics that are full.
func (t *T) tellFull(topics ...string) []string {
	all, err := optional[store.Topics](t).Full(t.ctx(), topics...)
	t.must(err)
	var names []string
	for _, e := range all {
		t.check(e.RetryAfter >= store.MinRetryAfter && e.RetryAfter <= store.MaxRetryAfter, "%+v", e)
		names = append(names, e.Topic)
	}
	return names
}

var boundIsKeptOrRefused = Sentence{
	Text: "A store that does not keep a maximum of waiting messages refuses it with ErrUnsupported, and changes nothing.",
	Name: "BoundIsKeptOrRefused", Test: func(t *T) {
		want := t.declare(store.Declaration{Deadline: time.Minute})
		to, most := want, int64(3)
		to.MaxWaiting = most
		_, err := t.topics().Alter(t.ctx(), to)
		if t.has(store.CanBound) {
			t.must(err)
			return
		}
		t.wantErr(err, store.ErrUnsupported)
		_, err = t.topics().Declare(t.ctx(), store.Declaration{Name: "other", MaxWaiting: &most})
		t.wantErr(err, store.ErrUnsupported)
		t.wantSettings(want)
		rs, err := t.Store.Append(backend.Accepted(context.Background()), store.NewBatch(t.msg("a")))
		t.must(err)
		t.check(rs[0].Err == nil, "%v", rs[0].Err)
	},
}

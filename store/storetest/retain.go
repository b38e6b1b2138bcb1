package storetest

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var retainSentences = []Sentence{
	{Text: "An acked message is gone, unless the topic retains it.",
		Name: "AckedIsForgotten", Test: func(t *T) {
			id := t.put(t.msg("a"))[0]
			t.ack(t.claimOne())
			t.gone(id)
		}},
	{Text: "A topic that retains keeps acked messages for that long, with when they were acked, and forgets them then.",
		Name: "RetainKeepsTheAcked", Test: func(t *T) {
			t.declare(store.Declaration{Retain: new(10 * time.Minute)})
			id := t.put(t.msg("a"))[0]
			t.Advance(time.Minute)
			t.retry(t.claimOne(), 0)
			t.ack(t.claimOne())
			r := t.inState(id, store.Acked)
			t.check(string(r.Body) == "a" && r.Attempts == 1 && len(r.History) == 1, "retained message %+v", r)
			t.near("the time from append to ack", r.AckedAt.Sub(r.EnqueuedAt), time.Minute)
			t.Advance(9 * time.Minute)
			t.inState(id, store.Acked)
			t.later(2 * time.Minute)
			t.gone(id)
		}},
	{Text: "A retained message is not delivered, listed, counted as waiting, cancelled or replayed.",
		Name: "RetainedIsNeverDelivered", Test: func(t *T) {
			t.declare(store.Declaration{Retain: new(time.Hour)})
			ds := t.claimedRun("k", "a", "b")
			t.ack(ds...)
			t.nothing()
			t.later(expiry)
			t.lists(store.Filter{})
			t.wantStats(store.TopicStats{Appended: 2, Acked: 2})
			t.refusing(t.inspector().Cancel(t.ctx(), ds[0].ID)).want(store.ErrNotFound, ds[0].ID)
			t.lost(verdict(ds[0], store.Ack))
			if t.has(store.CanDeadLetters) {
				t.refusing(t.dead().Replay(t.ctx(), "", ds[0].ID)).want(store.ErrNotFound, ds[0].ID)
			}
			t.inState(ds[0].ID, store.Acked)
		}},
	{Text: "List finds the acked messages of topics that retain, by rank, topic, key and age, and no others.",
		Name: "ListFindsTheRetained", Needs: needs(store.CanLookup), Test: func(t *T) {
			t.declare(store.Declaration{Retain: new(10 * time.Minute)})
			t.put(t.keyed("k", "a"))
			t.Advance(time.Minute)
			t.put(t.keyed("other", "b"), t.keyed("k", "c"), t.msg("d"))
			t.put(pawl.Message{Topic: "forgets", Body: []byte("e")})
			for range 3 {
				t.ack(t.claimOne())
			}
			t.lists(store.Filter{State: store.Acked}, "a", "b", "c")
			t.lists(store.Filter{Topic: t.Topic, State: store.Acked}, "a", "b", "c")
			t.lists(store.Filter{Topic: "forgets", State: store.Acked})
			t.lists(store.Filter{Key: []byte("k"), State: store.Acked}, "a", "c")
			t.lists(store.Filter{Topic: t.Topic, Key: []byte("k"), State: store.Acked}, "a", "c")
			t.lists(store.Filter{OlderThan: 30 * time.Second, State: store.Acked}, "a")
			t.lists(store.Filter{Limit: 2, State: store.Acked}, "a", "b")
			for _, r := range t.list(store.Filter{State: store.Acked}) {
				t.check(!r.AckedAt.IsZero(), "%q is %s, acked at %v", r.Body, r.State, r.AckedAt)
			}
			t.lists(store.Filter{Topic: t.Topic}, "d")
			t.Advance(11 * time.Minute)
			t.lists(store.Filter{State: store.Acked})
		}},
	{Text: "A retained message's id is taken; its unique key is free.",
		Name: "IDOfTheRetainedIsTaken", Needs: needs(store.CanUnique), Test: func(t *T) {
			t.declare(store.Declaration{Retain: new(10 * time.Minute)})
			m := t.withID("mine", "a")
			m.Unique.Key = "u"
			t.put(m)
			t.ack(t.claimOne())
			t.duplicate("mine", m)
			t.put(t.unique("b", "u", pawl.Unique{}))
			t.ack(t.claims("b")...)
			t.Advance(11 * time.Minute)
			t.put(m)
		}},
}

package storetest

import (
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var removeSentences = []Sentence{
	{Text: "A topic that is removed has no settings and no figures; other topics are not concerned.",
		Name: "RemovedTopicIsGone", Needs: needs(store.CanDelay), Test: func(t *T) {
			other := pawl.Message{Topic: "other", Key: []byte("k"), Body: []byte("x")}
			t.put(other, other)
			t.declare(store.Declaration{Deadline: time.Minute})
			t.put(t.msg("a"), t.keyed("k", "b"))
			for _, d := range t.claims("a", "b") {
				t.hold(d, time.Hour)
			}
			t.must(t.remove())
			t.noTopic()
			t.nothing()
			t.later(2 * time.Hour)
			t.noTopic()
			t.Topic = "other"
			t.wantStats(store.TopicStats{Appended: 2, Waiting: 2})
			t.claims("x", "x")
		}},
	{Text: "With a topic the acked messages go that it retains.",
		Name: "RemoveTakesWhatIsRetained", Needs: needs(store.CanLookup, store.CanUnique), Test: func(t *T) {
			t.declare(store.Declaration{Retain: new(24 * time.Hour)})
			m := t.withID("mine", "a")
			t.put(m)
			t.ack(t.claims("a")...)
			t.inState("mine", store.Acked)
			t.must(t.remove())
			t.gone("mine")
			t.put(m)
			t.wantSettings(store.NewTopic(t.Topic))
			t.ack(t.claims("a")...)
			t.gone("mine")
		}},
	{Text: "A removed topic that is appended to, declared or paused is new: default settings, no pause, figures from zero.",
		Name: "RemovedTopicIsMadeAnew", Test: func(t *T) {
			used := func() {
				t.declare(store.Declaration{Order: store.OrderNone, Deadline: time.Minute, Park: new(true)})
				t.put(t.msg("a"))
				t.ack(t.claims("a")...)
				t.must(t.topics().Pause(t.ctx(), t.Topic, 0, "me", "for ever"))
				t.must(t.remove())
				t.noTopic()
			}
			used()
			t.lane("k", "b", "c")
			t.wantSettings(store.NewTopic(t.Topic))
			t.wantStats(store.TopicStats{Appended: 2, Waiting: 2})
			t.notPaused()
			t.wantBodies(t.heads(2), "b") // one lane
			t.Topic = "topic2"
			used()
			want := store.NewTopic(t.Topic)
			want.Deadline, want.Version = 2*time.Minute, 1
			t.declare(store.Declaration{Deadline: want.Deadline})
			t.wantSettings(want)
			t.wantStats(store.TopicStats{})
			t.Topic = "topic3"
			used()
			t.must(t.topics().Pause(t.ctx(), t.Topic, 0, "me", "again"))
			p := t.stats().Paused
			t.check(p != nil && p.Reason == "again", "paused: %+v", p)
		}},
	{Text: "A topic with a message that waits, is delayed, leased or dead is not removed: ErrConflict, and nothing changes.",
		Name: "RemoveRefusesMessages", Needs: needs(store.CanDeadLetters, store.CanDelay), Test: func(t *T) {
			t.declare(store.Declaration{Deadline: 10 * time.Minute})
			want := t.settings()
			refused := func() {
				before := t.stats()
				t.conflict(t.remove())
				t.wantSettings(want)
				t.wantStats(before)
			}
			t.put(t.delayed(t.msg("a"), time.Hour))
			refused()
			t.Advance(2 * time.Hour)
			refused()
			d := t.claimOne()
			refused()
			t.kill(d, "dead")
			refused()
			t.noneRefused(t.dead().Purge(t.ctx(), d.ID))
			t.must(t.remove())
			t.noTopic()
		}},
	{Text: "Removing a topic that is not there, or was removed, is ErrNotFound.",
		Name: "RemoveOfNoneIsNotFound", Test: func(t *T) {
			for range 2 {
				t.wantErr(t.remove(), store.ErrNotFound)
			}
			t.put(t.msg("a"))
			t.ack(t.claims("a")...)
			t.must(t.remove())
			t.wantErr(t.remove(), store.ErrNotFound)
			t.wantErr(errOf(t.topics().Alter(t.ctx(), store.NewTopic(t.Topic))), store.ErrNotFound)
		}},
	{Text: "A process that knew the topic appends to it after another one removed it: nothing is lost.",
		Name: "PeerMakesRemovedTopicAnew", Needs: needs(store.CanProcesses), Test: func(t *T) {
			peer := t.peer()
			t.put(t.keyed("k", "a"))
			t.ack(t.claims("a")...)
			peer.put(t.keyed("k", "b"))
			t.ack(t.claims("b")...)
			t.must(t.remove())
			for _, body := range []string{"c", "d"} {
				peer.put(t.keyed("k", body), t.msg(body+" too"))
			}
			t.wantStats(store.TopicStats{Appended: 4, Waiting: 4})
			t.wantSettings(store.NewTopic(t.Topic))
			t.claimsMany(100, 4)
		}},
}

func (t *T) remove() error {
	return optional[store.Topics](t).RemoveTopic(t.ctx(), t.Topic)
}

// noTopic fails unless the topic is not there.
func (t *T) noTopic() {
	t.wantErr(errOf(t.topics().Topic(t.ctx(), t.Topic)), store.ErrNotFound)
	all, err := t.topics().Stats(t.ctx())
	t.must(err)
	for i := range all {
		t.check(all[i].Name != t.Topic, "figures of a removed topic: %+v", all[i])
	}
}
